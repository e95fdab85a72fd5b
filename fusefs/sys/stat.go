//go:build linux || darwin

package sys

import (
	"time"

	"cachebro/store/leaf/event"
)

// Time is a moment as the source stores it. Nanoseconds since 1970 in one int64, as in
// event.Stat, end in the year 2262; the times that programs see must not.
type Time struct {
	Sec  int64 // since 1970
	Nsec uint32
}

func (t Time) nanos() int64 { return t.Sec*int64(time.Second) + int64(t.Nsec) }

// Stat holds the attributes of a file on the source. Birth is 0 if the source has none.
type Stat struct {
	event.Stat
	Accessed, Modified, Changed Time
	Born                        Time   // zero if the source has none
	Blocks                      uint64 // of 512 bytes
	Blksize                     uint32 // bytes
	Rdev                        uint64
	// More of Linux's statx(2): which fields the source has, its attribute flags, and
	// which of those it knows. On darwin Flags are those of chflags(2).
	Has               uint32
	Flags, KnownFlags uint64
}

// Dirent is one entry of a directory. Next is the position after it.
type Dirent struct {
	Ino  uint64
	Next uint64
	Mode uint32 // its type as S_IFMT bits, 0 if the source does not say
	Name string
}
