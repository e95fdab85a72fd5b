// Package overseer runs the processes behind a mount: the supervisor, which
// outlives everything and holds nothing that can break, and mountd, which puts
// fusefs, capture and spool together and serves the mount. Both are sub-commands
// of the one binary.
//
//	cachebro mount ──starts──▶ supervise ──starts──▶ mountd ──starts──▶ daemon
//	      ◀──Report through a pipe──┘◀──Report───────┘
//
// The supervisor opens the source directory before the mount covers it and
// hands it to mountd as a descriptor; it keeps its own copy, so that another
// mountd could be started on the same source. When mountd ends otherwise than
// by an unmount, the supervisor detaches the dead mount, so that the plain
// project shows again. When the supervisor dies, mountd starts another one that
// adopts it. When the store daemon dies, mountd starts it again and attaches
// anew; nothing else notices.
//
// On disk, in the state directory: mount.json (Record: who serves which mount),
// crash.json (Crash: why the last mount ended badly; removed by the next one),
// supervise.log and mountd.log.
//
// Locks: mountd's link has one mutex over the client of the daemon; nothing is
// called while it is held.
package overseer
