//go:build !linux

package displace

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Held is a file that is to be displaced; here others cannot be kept off.
type Held struct {
	file   *os.File
	info   fs.FileInfo
	leased bool // never
}

// Hold leaves f to Release.
func Hold(f *os.File) (*Held, error) {
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return &Held{file: f, info: fi}, nil
}

// Asked is not known here.
func (h *Held) Asked() bool { return false }

func (h *Held) unlock() {}

func idle(*os.File) bool { return true }

// exchange gives two names each other's file.
func exchange(dir *os.File, a, b string) error { return renamex(dir, a, b, unix.RENAME_SWAP) }

// move renames a to b, where nothing may be.
func move(dir *os.File, a, b string) error { return renamex(dir, a, b, unix.RENAME_EXCL) }

func renamex(dir *os.File, a, b string, flags uint32) error {
	if err := unix.RenameatxNp(int(dir.Fd()), a, int(dir.Fd()), b, flags); err != nil {
		return &os.LinkError{Op: "rename", Old: a, New: b, Err: err}
	}
	return nil
}

// cannot: this volume knows no such rename.
func cannot(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP)
}

// Overlay: nothing special is known of any directory here.
func Overlay(string) bool { return false }

// Writers is not known here.
func Writers(fs.FileInfo) string { return "" }
