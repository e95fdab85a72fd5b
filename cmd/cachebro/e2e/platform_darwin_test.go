package e2e

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func exchange(a, b string) error {
	return unix.RenameatxNp(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_SWAP)
}

// detach removes a mount even if it is in use.
func detach(dir string) { _ = unix.Unmount(dir, unix.MNT_FORCE) }

// signalThreads sends a signal to this process; the kernel chooses the thread.
func signalThreads(s syscall.Signal) { _ = unix.Kill(os.Getpid(), s) }

// nameless does nothing, because macOS has no files without a name.
func nameless(string, string, string) {}
