// Package supervisor runs the two processes of a mount. mountd combines fusefs, capture and spool,
// and serves the mount. The supervisor replaces mountd if it dies, and does little else, so that
// little can fail. Both are sub-commands of the one binary.
//
//	cachebro mount ──starts──▶ supervise ──starts──▶ mountd ──starts──▶ daemon
//	      ◀──Report through a pipe──┘◀──Report───────┘
//
// Before the mount covers the source directory, the supervisor opens the directory and passes the
// descriptor to mountd. The supervisor holds copies of this descriptor, of /dev/fuse, of the ledger
// (a memfd with the state of fusefs) and of open files without a name. When mountd ends without an
// unmount, the supervisor starts another mountd that takes over the same connection. Programs on
// the mount wait for about a tenth of a second. A take-over needs Linux 6.9 (FUSE_NOTIFY_RESEND).
// If five successive mountds fail to take over or live for less than a second, the supervisor detaches
// the dead mount, so that the plain project is visible again. When the supervisor dies, mountd
// starts another one, which adopts mountd and gets all these descriptors. When the daemon dies,
// mountd starts another one and attaches to it.
//
// On SIGTERM, mountd writes all queued content to the spool (60 s at most) and waits 2 s for
// processes inside. Then it detaches the mount, and serves these processes until they leave or a
// second signal arrives. If the state directory is removed, mountd ends within 0.1 s, or within 15
// s if the kernel does not report the removal. On an idle mount, mountd wakes every 15 s to check
// that directory, and every minute to look for other ways to the source. The supervisor never
// wakes.
//
// Files in the state directory: mount.json (Record: which processes serve the mount), crash.json
// (Crash: how the last mount ended, if unexpectedly; the next mount removes this file),
// supervise.log and mountd.log.
//
// Locks: mountd's connection to the daemon (link.go) has one mutex. Nothing is called while it is
// held.
package supervisor
