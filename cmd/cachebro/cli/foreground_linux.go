package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// Foreground reports whether the terminal, if there is one, sends its signals to this process
// group. It asks /dev/tty, because standard input may be a file.
func Foreground() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	pgrp, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && pgrp == unix.Getpgrp()
}
