package e2e

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// exchange has two names change places.
func exchange(a, b string) error {
	return unix.RenameatxNp(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_SWAP)
}

// detach takes a mount away, whoever uses it.
func detach(dir string) { _ = unix.Unmount(dir, unix.MNT_FORCE) }

// signalThreads sends a signal to this process; the kernel chooses the thread.
func signalThreads(s syscall.Signal) { _ = unix.Kill(os.Getpid(), s) }

// nameless: there is no such file here.
func nameless(string, string, string) {}
