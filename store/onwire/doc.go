// Package onwire converts the store's values, paths and errors to those of package wire, and parses
// what clients send.
package onwire
