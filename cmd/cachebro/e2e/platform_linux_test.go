package e2e

import (
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

func exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}

// detach removes a mount even if it is in use.
func detach(dir string) { _ = unix.Unmount(dir, unix.MNT_DETACH) }

// signalThreads sends a signal to each thread of this process.
func signalThreads(s syscall.Signal) {
	threads, _ := os.ReadDir("/proc/self/task")
	for _, e := range threads {
		tid, _ := strconv.Atoi(e.Name())
		_ = unix.Tgkill(os.Getpid(), tid, s)
	}
}

// nameless makes a file without a name in dir, then gives it one. If the user may not do that, it
// makes no file.
func nameless(dir, name, text string) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR, 0o644)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	_, _ = unix.Write(fd, []byte(text))
	_ = unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD, name, unix.AT_SYMLINK_FOLLOW)
}
