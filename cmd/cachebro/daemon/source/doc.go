// Package source reads the project's files in the directory that the mount covers. It never reads
// through the mount, because a mount that hangs must not hang the daemon.
package source
