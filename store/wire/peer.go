package wire

import (
	"net"
	"os"
)

// Peer is the process at the other end of a connection, as the kernel says.
type Peer struct {
	PID int // 0 where the kernel does not tell
	UID uint32
}

// checkPeer refuses another user: the socket's directory keeps strangers out,
// but a daemon (or client) must not depend on one directory mode.
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
