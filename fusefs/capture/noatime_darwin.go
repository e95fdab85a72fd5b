package capture

import "syscall"

// noAtime is 0, because no flag of Darwin preserves the access time.
const noAtime = 0

const ownFDs = "/dev/fd"

func quiet(int) {}

func mtime(st *syscall.Stat_t) int64 { return st.Mtimespec.Nano() }
