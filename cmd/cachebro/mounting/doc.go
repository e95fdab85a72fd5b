// Package mounting has the commands that begin, renew and end a mount, and the two
// processes that serve one (supervise, mountd), and so too at, which shows the past of a
// project as a mount of its own, and label, which names a moment of it. The commands that
// mount on the way (run, up, the first hook of a session) plan the mount with the same code.
package mounting
