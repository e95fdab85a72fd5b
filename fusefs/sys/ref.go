//go:build linux || darwin

package sys

import (
	"strings"
	"time"

	"cachebro/store/leaf/event"

	"golang.org/x/sys/unix"
	"golang.org/x/text/unicode/norm"
)

// Ref refers to a file by an open descriptor, which may have been opened with Place. If FD is
// negative, the Ref means the file that Name in the directory Dir leads to at the time of a call.
// Names are used for files that cannot be opened without an effect; see Points.
type Ref struct {
	FD   int
	Dir  int
	Name string
}

// FD returns the Ref of a descriptor.
func FD(fd int) Ref { return Ref{FD: fd} }

// At returns the Ref of a name in a directory.
func At(dir int, name string) Ref { return Ref{FD: -1, Dir: dir, Name: name} }

// StatRef fills s with the attributes of a file.
func StatRef(r Ref, s *Stat) error {
	if r.FD < 0 {
		return StatAt(r.Dir, r.Name, s)
	}
	return StatFD(r.FD, s)
}

// ReadLink returns the target of the symbolic link name in the directory dir.
func ReadLink(dir int, name string) ([]byte, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(dir, name, buf)
	if err != nil {
		return nil, err
	}
	return buf[:n], nil
}

// SameName reports whether two names are equal on a volume that ignores case and normalises names.
// Volumes differ in the names that they treat as equal (ß and ss, ignored characters). So SameName
// is used only where the volume cannot be asked: for names that do not exist, and in comparing the
// names of one file.
func SameName(a, b string) bool {
	return a == b || strings.EqualFold(norm.NFD.String(a), norm.NFD.String(b))
}

// spelling chooses, among the names that an inode has in a directory, the name that matches name.
func spelling(name string, of []string) string {
	if len(of) == 1 {
		return of[0]
	}
	for _, s := range of {
		if SameName(s, name) {
			return s
		}
	}
	return name
}

// Time is a time as the source stores it. event.Stat holds a time as nanoseconds in one int64,
// which overflows in 2262. The times that programs see must not overflow.
type Time struct {
	Sec  int64 // since 1970
	Nsec uint32
}

func (t Time) nanos() int64 { return t.Sec*int64(time.Second) + int64(t.Nsec) }

// Stat holds the attributes of a file of the source. Birth is 0 if the source has no birth time, or
// one that does not stay the same.
type Stat struct {
	event.Stat
	Accessed, Modified, Changed Time
	Born                        Time   // zero if the source has no birth time
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
