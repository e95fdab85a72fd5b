//go:build linux && (amd64 || arm64)

package outside

import (
	"encoding/binary"
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"cachebro/store/leaf/notifier"

	"golang.org/x/sys/unix"
)

// A page shows the call that is being looked at: the kernel's notice, and what Pack made
// of it with its size, which is written last.
const (
	packedSize = notifier.NoticeSize
	packedAt   = packedSize + 4
	pageSize   = 16 << 10
	mostPacket = pageSize
)

// service answers those who run a tree.
type service struct {
	r    *Recorder
	stir chan struct{} // capacity 1: a call was seen; never closed

	mu   sync.Mutex // guards what follows
	open int        // connections
	idle chan struct{}
}

// Serve is the recorder's process: it answers until nothing is left to be seen.
func Serve(r *Recorder, l *net.UnixListener) error {
	s := &service{r: r, stir: make(chan struct{}, 1), idle: make(chan struct{}, 1)}
	stop := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() { s.rests(stop) })
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
	err := l.Close() // and removes the socket: who comes now starts another recorder
	close(stop)
	all.Wait()
	return errors.Join(err, r.Close())
}

// lingerFor is how long a recorder waits for another tree.
const lingerFor = time.Second

// linger returns once nobody has been there for a while.
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

// rests settles what is quiet, for as long as there is something.
func (s *service) rests(stop <-chan struct{}) {
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
			awaits = s.r.rest()
		}
	}
}

// connection deals with one connection, until its other end closes it.
func (s *service) connection(c *net.UnixConn) {
	f, err := c.File() // it blocks: that is quicker than Go's poller
	c.Close()
	if err != nil {
		return
	}
	defer f.Close()
	fd := int(f.Fd())
	var t tree
	defer t.close()
	buf, oob := make([]byte, mostPacket), make([]byte, unix.CmsgSpace(2*4))
	for {
		n, oobn, _, _, err := unix.Recvmsg(fd, buf, oob, unix.MSG_CMSG_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			break
		}
		answer := append(make([]byte, 0, answerSize), buf[0])
		switch buf[0] {
		case doWatch:
			t.ours = n > 1
			if err := t.take(oob[:oobn]); err != nil {
				s.r.o.Logger.Warn("a tree is not watched", "error", err)
				return
			}
		case doSettle:
			s.r.Settle()
		case doCall:
			call, err := notifier.AsPacked(buf[1:n])
			if err != nil {
				s.r.o.Logger.Warn("a call is not seen", "error", err)
				return
			}
			s.see(call, t.origin)
			answer = append(answer, buf[1:answerSize]...)
		}
		if err := unix.Sendto(fd, answer, unix.MSG_NOSIGNAL, nil); err != nil {
			break
		}
	}
	if t.listener == nil {
		return
	}
	t.alone(func(n *notifier.Notice) { s.see(n, t.origin) })
	s.r.Settle()
}

func (s *service) see(n *notifier.Notice, from origin) {
	s.r.see(n, from)
	select {
	case s.stir <- struct{}{}:
	default:
	}
}

// clockTick is by how much the times of files are behind at most.
const clockTick = 50 * time.Millisecond

// tree is one that is watched.
type tree struct {
	listener, page *os.File
	origin
}

// origin is what a tree is.
type origin struct {
	began time.Time
	ours  bool // it carries out a plan
}

func (t *tree) take(oob []byte) error {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(msgs) != 1 {
		return errors.New("it came without its listener")
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil || len(fds) != 2 {
		return errors.New("it came without its page")
	}
	t.listener, t.page, t.began = os.NewFile(uintptr(fds[0]), "listener"), os.NewFile(uintptr(fds[1]), "page"), time.Now()
	return nil
}

func (t *tree) close() {
	if t.listener != nil {
		t.listener.Close()
		t.page.Close()
	}
}

// alone sees the rest of a tree whose run has ended or died, beginning with the call that
// it had taken. Where only ancestors may read a process's memory, no other is seen.
func (t *tree) alone(see func(*notifier.Notice)) {
	b := make([]byte, pageSize)
	fd := int(t.listener.Fd())
	if _, err := t.page.ReadAt(b, 0); err == nil {
		if n := notifier.Taken(b); n != nil {
			see(asPacked(b, n))
			notifier.GoOn(fd, n.ID)
		}
	}
	notifier.Serve(fd, -1, b[:notifier.NoticeSize], see)
}

// asPacked is the call that was taken last as it was packed, if it was.
func asPacked(page []byte, taken *notifier.Notice) *notifier.Notice {
	size := int(binary.NativeEndian.Uint32(page[packedSize:]))
	if size < 2 || size > len(page)-packedAt {
		return taken
	}
	n, err := notifier.AsPacked(page[packedAt+1 : packedAt+size])
	if err != nil || n.ID != taken.ID {
		return taken
	}
	return n
}
