// Package source is the project's files as they stand, read below the mount and
// never through it: a mount that hangs must not hang the daemon.
package source
