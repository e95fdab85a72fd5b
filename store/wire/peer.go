package wire

import (
	"net"
	"os"
)

// Peer is the process at the other end of a connection, as the kernel reports it.
type Peer struct {
	PID int // 0 if the kernel does not report it
	UID uint32
}

// checkPeer returns an error for other users. The mode of the socket's directory already keeps them
// out, but a single directory mode is too weak a protection.
func checkPeer(c *net.UnixConn) (Peer, error) {
	p, err := peerOf(c)
	if err != nil {
		return p, Errorf(ErrForeign, "", "cannot tell who is at the other end of the socket: %v", err)
	}
	if p.UID != uint32(os.Getuid()) {
		return p, Errorf(ErrForeign, "run cachebro as the user who mounted the project",
			"the process at the other end of the socket runs as uid %d, not %d", p.UID, os.Getuid())
	}
	return p, nil
}
