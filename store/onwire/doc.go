// Package onwire converts the store's values, paths and errors to the form of package wire,
// and parses the form that clients send.
package onwire
