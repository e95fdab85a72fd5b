//go:build linux || darwin

package fusefs

import (
	"errors"
	"strings"
	"time"
)

// Unmount takes a mount away and does not wait for the end of its server, which
// serves copies of the mount in other mount namespaces. ErrBusy: something is
// open on it; then nothing has changed.
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

// Detach takes a mount away at once, whoever uses it: they keep what they have
// open, everybody else sees what was mounted over. It needs no answer from the
// process that serves the mount. On darwin what they have open ends.
func Detach(mountpoint string) error { return unmount(mountpoint, true) }

// escape protects what separates mount options.
func escape(s string) string {
	return strings.NewReplacer(`\`, `\\`, `,`, `\,`).Replace(s)
}
