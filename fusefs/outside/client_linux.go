package outside

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A packet on the socket begins with what it wants. The answer to each is the packet's
// beginning, for a call with its id.
const (
	doWatch  = 'w' // a tree begins: with its listener and the page where its calls lie
	doCall   = 'c' // a call waits
	doSettle = 's' // tell the histories how everything is
)

const (
	answerSize = 9
	// heldFor is how long a call waits for the recorder at most.
	heldFor = 5 * time.Second
)

// dial connects to a recorder.
func dial(socket string) (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: socket}); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// ask sends one packet and waits for its answer. Later receipts wait for heldFor.
func ask(conn int, packet []byte, within time.Duration, fds ...int) error {
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	wait := func(d time.Duration) error {
		tv := unix.NsecToTimeval(int64(d))
		return unix.SetsockoptTimeval(conn, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv)
	}
	if err := wait(within); err != nil {
		return err
	}
	if err := unix.Sendmsg(conn, packet, rights, nil, unix.MSG_NOSIGNAL); err != nil {
		return err
	}
	var b [answerSize]byte
	n, _, err := unix.Recvfrom(conn, b[:], 0)
	for err == unix.EINTR {
		n, _, err = unix.Recvfrom(conn, b[:], 0)
	}
	if err == nil && (n == 0 || b[0] != packet[0]) {
		err = errors.New("the recorder has ended")
	}
	return errors.Join(err, wait(heldFor))
}

// Settle has a recorder, if there is one, tell the histories how everything is.
func Settle(socket string, within time.Duration) error {
	conn, err := dial(socket)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(conn)
	return ask(conn, []byte{doSettle}, within)
}
