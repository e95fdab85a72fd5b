// Package setup has the commands that write clients' and git's configuration and
// take it back: up, down, init, uninit, uninstall.
package setup
