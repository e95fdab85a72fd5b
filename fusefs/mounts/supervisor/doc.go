// Package supervisor runs the two processes of a mount: mountd, which combines fusefs, capture
// and spool and serves the mount, and the supervisor, which replaces mountd if it dies and does
// little else, so that little in it can fail. Both are sub-commands of the one binary.
//
//	cachebro mount ──starts──▶ supervise ──starts──▶ mountd ──starts──▶ daemon
//	      ◀──Report through a pipe──┘◀──Report───────┘
//
// The supervisor opens the source directory before the mount covers it and hands it to mountd as
// a descriptor. The supervisor holds a copy of this descriptor, a duplicate of /dev/fuse, the
// ledger (a memfd in which fusefs stores its state) and the descriptors of open files that have no
// name any more. When mountd ends without an unmount, the supervisor starts another mountd that
// takes over the same connection. Programs on the mount wait for about a tenth of a second and
// notice nothing. This needs Linux 6.9 (FUSE_NOTIFY_RESEND). If it fails, or if five successive
// mountds live for less than a second, the supervisor detaches the dead mount, so that the plain
// project is visible again. When the supervisor dies, mountd starts another one that adopts
// mountd, and hands it all these descriptors. When the store daemon dies, mountd starts it again
// and attaches anew; no other process notices.
//
// SIGTERM unmounts: mountd writes all queued content to the spool (60 s at most), waits 2 s for
// processes inside, then detaches the mount and serves these processes until they leave or a
// second signal arrives. If its state directory is removed, mountd ends within 0.1 s, or within
// 15 s if the kernel does not report the removal. While nothing happens on the mount, mountd
// wakes every 15 s to look at that directory and every minute to look for other ways to the
// source; the supervisor never wakes.
//
// Files in the state directory: mount.json (Record: which processes serve the mount), crash.json
// (Crash: how the last mount ended unexpectedly; the next mount removes it), supervise.log and
// mountd.log.
//
// Locks: mountd's link has one mutex over the client of the daemon; nothing is
// called while it is held.
package supervisor
