package apply

import (
	"cachebro/store/leaf/event"

	"golang.org/x/sys/unix"
)

// Settle waits until the mount has reported all files that were closed before, but at most half a
// second. Without it, a plan could miss a file that was just made or emptied. If dir is not a mount,
// Settle does nothing.
func Settle(dir string) { _, _ = unix.Getxattr(dir, event.Settled, nil) }
