//go:build !linux

package fork

import (
	"os"

	"golang.org/x/sys/unix"
)

func clone(_, _ *os.File) bool { return false }

// setMtime sets the time of the last change, in ns since the epoch; here in µs.
func setMtime(f *os.File, ns int64) error {
	t := unix.NsecToTimeval(ns)
	return unix.Futimes(int(f.Fd()), []unix.Timeval{t, t})
}
