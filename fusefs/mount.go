//go:build linux || darwin

package fusefs

import (
	"errors"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Unmount unmounts a mountpoint. If a file on the mount is in use, it changes nothing and returns
// ErrBusy. It does not wait for the server to end, which may still serve copies of the mount in
// other mount namespaces.
func Unmount(mountpoint string) error {
	var err error
	for try := range 5 {
		// Files that were just closed are released in the background.
		err = unmount(mountpoint, false)
		if !errors.Is(err, ErrBusy) {
			break
		}
		time.Sleep(time.Duration(try+1) * 10 * time.Millisecond)
	}
	return err
}

// Detach removes a mount at once, without help from its server. Processes that use it keep their
// open files, and all others see the covered directory. On darwin open files are closed.
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
		return -1, errors.Join(errors.New("the mount program sent no descriptor"), err)
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil || len(fds) != 1 {
		return -1, errors.Join(errors.New("the mount program sent no descriptor"), err)
	}
	unix.CloseOnExec(fds[0])
	return fds[0], nil
}
