// Package onwire gives the store's values, paths and errors the form in which
// clients know them, and reads the form that clients send.
package onwire
