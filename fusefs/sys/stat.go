//go:build linux || darwin

package sys

import (
	"time"

	"cachebro/store/leaf/event"
)

// Time is a moment as the source keeps it. Nanoseconds since 1970 in one int64, as
// event.Stat has them, end in the year 2262; what a program is shown must not.
type Time struct {
	Sec  int64 // since 1970
	Nsec uint32
}

func (t Time) nanos() int64 { return t.Sec*int64(time.Second) + int64(t.Nsec) }

// Stat is what the source says of a file. Birth is 0 where the source has none.
type Stat struct {
	event.Stat
	Accessed, Modified, Changed Time
	Born                        Time   // zero where the source has none
	Blocks                      uint64 // of 512 bytes
	Blksize                     uint32 // bytes
	Rdev                        uint64
	// What Linux's statx(2) says beside: which fields the source has, and its attribute
	// flags with those of them that it knows. On darwin Flags are those of chflags(2).
	Has               uint32
	Flags, KnownFlags uint64
}

// Dirent is one entry of a directory. Next is where reading goes on behind it.
type Dirent struct {
	Ino  uint64
	Next uint64
	Mode uint32 // its type as S_IFMT bits, 0 where the source does not tell
	Name string
}
