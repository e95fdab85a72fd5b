package attribution

import (
	"golang.org/x/sys/unix"
)

// OpenProcess returns a descriptor of a running process, < 0 if it cannot be opened. For many
// requests the daemon checks whether mountd has ended. With the descriptor that takes 1 µs, with
// /proc 30 µs.
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
