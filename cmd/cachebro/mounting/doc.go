// Package mounting has the commands that begin, renew and end a mount, and the two
// processes that serve one (supervise, mountd). The
// plan that is made before mounting also serves the commands that mount on the way:
// run, up, and the first hook of a session.
package mounting
