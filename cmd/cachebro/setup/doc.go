// Package setup has the commands that write the configuration of clients and of git, and remove
// it again: up, down, init, uninit, upgrade and uninstall.
package setup
