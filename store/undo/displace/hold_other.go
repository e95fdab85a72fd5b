//go:build !linux

package displace

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Held is a file that is to be displaced. On this system other processes cannot be blocked.
type Held struct {
	file   *os.File
	info   fs.FileInfo
	leased bool // always false
}

// Hold returns a Held without blocking other processes. Release closes f.
func Hold(f *os.File) (*Held, error) {
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return &Held{file: f, info: fi}, nil
}

// Asked returns false, because this system does not report waiting writers.
func (h *Held) Asked() bool { return false }

func (h *Held) unlock() {}

func idle(*os.File) bool { return true }

// Exchange swaps the files of two names. If the volume does not support that (HFS+, network
// volumes), it changes neither.
func Exchange(from *os.File, a string, to *os.File, b string) error {
	return renamex(from, a, to, b, unix.RENAME_SWAP)
}

// move renames a to b. It fails if b exists.
func move(dir *os.File, a, b string) error { return renamex(dir, a, dir, b, unix.RENAME_EXCL) }

func renamex(from *os.File, a string, to *os.File, b string, flags uint32) error {
	if err := unix.RenameatxNp(int(from.Fd()), a, int(to.Fd()), b, flags); err != nil {
		return &os.LinkError{Op: "rename", Old: a, New: b, Err: err}
	}
	return nil
}

// unsupported reports whether an error means that the volume does not support such a rename.
func unsupported(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP)
}

// Overlay returns false: on this system, a process that looks up a name before a rename may open the
// old file after it.
func Overlay(string) bool { return false }

// Writers returns "". The processes are unknown on this system.
func Writers(fs.FileInfo) string { return "" }
