package attribution

import (
	"golang.org/x/sys/unix"
)

// OpenProcess returns a descriptor of a running process, < 0 if it cannot be opened. Asking
// the descriptor whether the process has ended takes 1 µs, and reading the process's state in
// /proc takes 30 µs. The daemon asks this about mountd for many of the requests that it answers.
func OpenProcess(pid int) int {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1
	}
	return fd
}

// Ended reports whether a process has ended.
func Ended(process int) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(process), Events: unix.POLLIN}}, 0)
	return err == nil && n > 0
}
