// Package mounting has the commands that begin, renew and end a mount, and the two
// processes that serve one (supervise, mountd). The commands that mount on the way
// (run, up, the first hook of a session) plan the mount with the same code.
package mounting
