//go:build linux || darwin

package fusefs

import (
	"errors"
	"strings"
	"time"

	"golang.org/x/sys/unix"
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

// receive receives one descriptor from a Unix socket.
func receive(sock, flags int) (int, error) {
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(sock, make([]byte, 4), oob, flags)
	if err != nil {
		return -1, err
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(msgs) == 0 {
		return -1, errors.Join(errors.New("no descriptor came"), err)
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil || len(fds) != 1 {
		return -1, errors.Join(errors.New("no descriptor came"), err)
	}
	unix.CloseOnExec(fds[0])
	return fds[0], nil
}
