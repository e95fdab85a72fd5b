//go:build linux || darwin

package sys

import (
	"time"

	"cachebro/store/leaf/event"
)

// Time is a time as the source stores it. event.Stat holds nanoseconds in one int64, which overflow
// in 2262. The times that programs see must not overflow.
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
	// On Linux these are stx_mask, stx_attributes and stx_attributes_mask of statx(2). On
	// Darwin, Flags are those of chflags(2).
	Has               uint32
	Flags, KnownFlags uint64
}

// Dirent is one entry of a directory.
type Dirent struct {
	Ino  uint64
	Next uint64 // position after this entry
	Mode uint32 // type as S_IFMT bits; 0 if the source does not report it
	Name string
}
