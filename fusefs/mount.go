//go:build linux || darwin

package fusefs

import (
	"errors"
	"strings"
	"time"
)

// Unmount unmounts a mountpoint. It does not wait for the end of the server, which may
// still serve copies of the mount in other mount namespaces. While something is open on
// the mount it changes nothing and returns ErrBusy.
func Unmount(mountpoint string) error {
	var err error
	for try := range 5 {
		// Files that were closed a moment ago are released in the background.
		err = unmount(mountpoint, false)
		if !errors.Is(err, ErrBusy) {
			break
		}
		time.Sleep(time.Duration(try+1) * 10 * time.Millisecond)
	}
	return err
}

// Detach removes a mount at once. Processes that use it keep their open files, and all others see
// the directory that the mount covered. It needs no answer from the process that serves the mount.
// On darwin open files are closed.
func Detach(mountpoint string) error { return unmount(mountpoint, true) }

// escape escapes the characters that separate mount options.
func escape(s string) string {
	return strings.NewReplacer(`\`, `\\`, `,`, `\,`).Replace(s)
}
