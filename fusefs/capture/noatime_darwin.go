package capture

import "syscall"

// noAtime: darwin has no such flag.
const noAtime = 0

// ownFDs is where our own descriptors have names.
const ownFDs = "/dev/fd"

// quiet has nothing to change.
func quiet(int) {}

func mtime(st *syscall.Stat_t) int64 { return st.Mtimespec.Nano() }
