// Package supervisor runs the two processes behind a mount: the supervisor, which does
// so little that nothing in it can break, and mountd, which combines fusefs, capture and
// spool and serves the mount. Both are sub-commands of the one binary.
//
//	cachebro mount ──starts──▶ supervise ──starts──▶ mountd ──starts──▶ daemon
//	      ◀──Report through a pipe──┘◀──Report───────┘
//
// The supervisor opens the source directory before the mount covers it and hands it to mountd as
// a descriptor. It keeps its own copy, a duplicate of /dev/fuse, the ledger (a memfd in which
// fusefs notes what it knows) and the descriptors of open files that no name leads to any more.
// When mountd ends without an unmount, another one takes over the same connection: programs on
// the mount wait for about a tenth of a second and notice nothing. Linux 6.9 is needed for that
// (FUSE_NOTIFY_RESEND). Where it fails, or five in a row live for less than a second, the
// supervisor detaches the dead mount, so that the plain project shows again. When the supervisor
// dies, mountd starts another one that adopts it and hands it all of this. When the store daemon
// dies, mountd starts it again and attaches anew; nothing else notices.
//
// SIGTERM unmounts: mountd copies what is queued (60 s at most), waits 2 s for processes
// inside, then detaches the mount and serves them until they leave or a second signal
// arrives. It ends within 0.1 s of its state directory going away, or within 15 s where
// the kernel reports nothing. At rest it wakes every 15 s to look at that directory and
// every minute to look for other ways to the source; the supervisor never wakes.
//
// On disk, in the state directory: mount.json (Record: who serves which mount),
// crash.json (Crash: why the last mount ended badly; removed by the next one),
// supervise.log and mountd.log.
//
// Locks: mountd's link has one mutex over the client of the daemon; nothing is
// called while it is held.
package supervisor
