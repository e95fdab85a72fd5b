//go:build linux && (amd64 || arm64)

package outside

import (
	"errors"
	"net"
	"strings"
	"sync"
	"time"

	"cachebro/store/leaf/notifier"
	"cachebro/store/wire"

	"golang.org/x/sys/unix"
)

// service serves the processes that run trees.
type service struct {
	r    *Recorder
	stir chan struct{} // receives a value when a call has left something to settle; has capacity 1 and is never closed

	mu   sync.Mutex // guards the fields below
	open int        // connections
	idle chan struct{}
}

// Serve runs the recorder's process. It serves connections until no tree is left to watch.
func Serve(r *Recorder, l *net.UnixListener) error {
	s := &service{r: r, stir: make(chan struct{}, 1), idle: make(chan struct{}, 1)}
	stop := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() { s.settleRegularly(stop) })
	all.Go(func() { // ends with the listener
		for {
			c, err := l.AcceptUnix()
			if err != nil {
				return
			}
			s.count(1)
			all.Go(func() {
				defer s.count(-1)
				s.connection(c)
			})
		}
	})
	s.linger()
	err := l.Close() // this also removes the socket, so the next client starts another recorder
	close(stop)
	all.Wait()
	return errors.Join(err, r.Close())
}

// lingerFor is how long a recorder without a tree waits for another tree.
const lingerFor = time.Second

// linger returns when there has been no connection for lingerFor.
func (s *service) linger() {
	for t := time.NewTimer(lingerFor); ; {
		select {
		case <-s.idle:
			t.Reset(lingerFor)
		case <-t.C:
			s.mu.Lock()
			open := s.open
			s.mu.Unlock()
			if open == 0 {
				return
			}
		}
	}
}

func (s *service) count(by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open += by; s.open == 0 {
		select {
		case s.idle <- struct{}{}:
		default:
		}
	}
}

// settleRegularly settles files that have not changed for a while. It pauses while no results are
// awaited.
func (s *service) settleRegularly(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-s.stir:
		}
		for awaits := true; awaits; {
			select {
			case <-stop:
				return
			case <-time.After(quietFor):
			}
			awaits = s.r.settleQuiet()
		}
	}
}

// connection serves one connection and the tree that it announces.
func (s *service) connection(c *net.UnixConn) {
	f, err := c.File() // a plain descriptor: blocking reads are faster than Go's poller
	c.Close()
	if err != nil {
		return
	}
	defer f.Close()
	fd := int(f.Fd())
	buf, oob := make([]byte, 2*unix.PathMax), make([]byte, unix.CmsgSpace(2*4))
	for {
		n, oobn, _, _, err := unix.Recvmsg(fd, buf, oob, unix.MSG_CMSG_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return
		}
		var t *tree
		switch buf[0] {
		case doWatch:
			t, err = takeTree(fd, oob[:oobn], n > 1)
			if err != nil {
				s.r.o.Logger.Warn("a process tree cannot be watched", "error", err)
				return
			}
		case doSettle:
			s.r.Settle()
		case wire.NetStart:
			version, root, _ := strings.Cut(string(buf[1:n]), "\x00")
			if version == s.r.o.Version { // a client of another version starts its own daemon
				s.r.o.StartDaemon(root)
			}
		}
		err = unix.Sendto(fd, buf[:1], unix.MSG_NOSIGNAL, nil)
		if t != nil {
			t.serve(s.see)
			s.r.Settle()
			return
		}
		if err != nil {
			return
		}
	}
}

func (s *service) see(n *notifier.Notice, from origin) bool {
	examined, unsettled := s.r.see(n, from)
	if unsettled {
		select {
		case s.stir <- struct{}{}:
		default:
		}
	}
	return examined
}
