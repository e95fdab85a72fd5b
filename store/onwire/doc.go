// Package onwire converts the store's values, paths and errors to the form that clients know, and
// parses the form that clients send.
package onwire
