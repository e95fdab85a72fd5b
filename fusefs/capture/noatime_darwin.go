package capture

import "syscall"

// noAtime is 0 because Darwin has no such flag.
const noAtime = 0

// ownFDs is the directory in which our own descriptors have names.
const ownFDs = "/dev/fd"

// quiet does nothing.
func quiet(int) {}

func mtime(st *syscall.Stat_t) int64 { return st.Mtimespec.Nano() }
