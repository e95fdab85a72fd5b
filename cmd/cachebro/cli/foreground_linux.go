package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// Foreground: does the terminal, if we have one, send its signals to our
// process group? Standard input may be a file all the same.
func Foreground() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	pgrp, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && pgrp == unix.Getpgrp()
}
