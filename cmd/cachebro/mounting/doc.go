// Package mounting has the commands that begin, renew and end a mount, and the two
// processes that serve one (supervise, mountd). What it plans before it mounts is
// used by whoever mounts on the way: run, up, a session's first hook.
package mounting
