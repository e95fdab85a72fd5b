// Package mounting has the commands that begin, renew and end a mount, and the two processes that
// serve a mount (supervise, mountd). It also has the commands at (mounts the past of a project),
// label (names a moment) and relocate. Other commands that mount a project (run, up, the first hook
// of a session) also plan the mount with PlanMount.
package mounting
