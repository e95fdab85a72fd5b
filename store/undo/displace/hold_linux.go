package displace

import (
	"errors"
	"io/fs"
	"os"
	"time"

	"cachebro/store/leaf/loop"

	"golang.org/x/sys/unix"
)

// Held is a file that other processes cannot open for writing until Release. It belongs to one
// goroutine.
type Held struct {
	file   *os.File
	info   fs.FileInfo // stat when the file was held
	leased bool
}

// patience is how long Hold waits for a process that is about to close the file. Such a process is
// exiting, or between fork and exec.
const patience = 30 * time.Millisecond

// Hold makes other processes that open f for writing wait until Release. f is a regular file open
// for reading. Hold returns ErrOpen if a process already has f open for writing. The caller must
// not open it for writing until Release, which closes f.
func Hold(f *os.File) (h *Held, err error) {
	for pause := time.Millisecond; ; pause *= 2 {
		h, err = hold(f)
		if !errors.Is(err, ErrOpen) || pause > patience/2 {
			return h, err
		}
		time.Sleep(pause)
	}
}

func hold(f *os.File) (*Held, error) {
	err := loop.Retry(func() error { _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK); return err })
	if errors.Is(err, unix.EAGAIN) {
		return nil, ErrOpen
	}
	h := &Held{file: f, leased: err == nil} // without a lease: this process is not the owner, or the file system has no leases
	h.info, err = f.Stat()
	if err != nil {
		h.unlock()
		return nil, err
	}
	return h, nil
}

// Asked reports whether a process is waiting to open the file for writing, or could not be blocked
// any longer.
func (h *Held) Asked() bool {
	if !h.leased {
		return false
	}
	var kind int
	err := loop.Retry(func() (err error) { kind, err = unix.FcntlInt(h.file.Fd(), unix.F_GETLEASE, 0); return err })
	return err != nil || kind != unix.F_RDLCK
}

func (h *Held) unlock() {
	if h.leased {
		_ = loop.Retry(func() error { _, err := unix.FcntlInt(h.file.Fd(), unix.F_SETLEASE, unix.F_UNLCK); return err })
		h.leased = false
	}
}

// idle returns false if a process has f, a regular file, open for writing. If that cannot be
// determined, it returns true.
func idle(f *os.File) bool {
	h, err := hold(f)
	if err == nil {
		h.unlock()
	}
	return !errors.Is(err, ErrOpen)
}

// Exchange swaps the files of two names.
func Exchange(from *os.File, a string, to *os.File, b string) error {
	return rename2(from, a, to, b, unix.RENAME_EXCHANGE)
}

// move renames a to b. It fails if b exists.
func move(dir *os.File, a, b string) error { return rename2(dir, a, dir, b, unix.RENAME_NOREPLACE) }

func rename2(from *os.File, a string, to *os.File, b string, flags uint) error {
	err := loop.Retry(func() error { return unix.Renameat2(int(from.Fd()), a, int(to.Fd()), b, flags) })
	if err != nil {
		return &os.LinkError{Op: "rename", Old: a, New: b, Err: err}
	}
	return nil
}

// unsupported reports whether an error means that the file system does not support such a rename.
func unsupported(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.ENOTSUP)
}

// Overlay reports whether dir is on a FUSE mount, where a process that looks up a name before a rename
// and opens the file after it gets the new file.
func Overlay(dir string) bool {
	var st unix.Statfs_t
	err := loop.Retry(func() error { return unix.Statfs(dir, &st) })
	return err == nil && st.Type == unix.FUSE_SUPER_MAGIC
}
