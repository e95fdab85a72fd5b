package apply

import (
	"cachebro/store/leaf/event"

	"golang.org/x/sys/unix"
)

// Settle waits, if dir is a mount, until the mount has reported all files that were closed
// before, but at most half a second. A plan made earlier would not take account of a file
// that has just been emptied.
func Settle(dir string) { _, _ = unix.Getxattr(dir, event.Settled, nil) }
