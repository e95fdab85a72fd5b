// Package source reads the project's files below the mount and never through it: a mount that
// hangs must not hang the daemon.
package source
