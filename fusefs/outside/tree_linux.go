//go:build linux && (amd64 || arm64)

package outside

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"cachebro/store/leaf/notifier"

	"golang.org/x/sys/unix"
)

// page is memory shared by a recorder and the process that runs a tree. The kernel writes the calls
// being examined into the page, so that they survive a kill of the recorder. A page holds two
// notices, the second for a call that arrives while the first takes too long. After the notices, it
// holds a counter of the calls that were let through unexamined.
type page []byte

const (
	unseenAt = 2 * notifier.NoticeSize
	pageSize = 4 << 10
)

func mapPage(fd int) (page, error) {
	return unix.Mmap(fd, 0, pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

func (p page) notices() [2][]byte {
	return [2][]byte{p[:notifier.NoticeSize], p[notifier.NoticeSize:unseenAt]}
}

// unseen adds to the number of calls let through unexamined, and returns the sum.
func (p page) unseen(more uint32) int {
	return int(atomic.AddUint32((*uint32)(unsafe.Pointer(&p[unseenAt])), more))
}

// heldFor bounds how long a call waits for the recorder.
const heldFor = 5 * time.Second

// clockTick bounds how far the times of files are behind the clock.
const clockTick = 50 * time.Millisecond

type origin struct {
	began time.Time
	ours  bool // the tree carries out one of cachebro's plans, such as an undo
}

// tree is a watched tree of processes.
type tree struct {
	origin
	conn      int // connection to the process that runs the tree
	listener  int
	page      page
	pass      [2]int        // a pipe; a byte in it makes letPass return
	passEnded chan struct{} // closed when letPass has ended
}

// takeTree returns the tree that a packet announces. oob holds its descriptors.
func takeTree(conn int, oob []byte, ours bool) (*tree, error) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(msgs) != 1 {
		return nil, errors.New("the request comes without the listener")
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}()
	if len(fds) != 2 {
		return nil, errors.New("the request comes without the page")
	}
	var st unix.Stat_t // its modification time is the start of the tree, because the page is made just before the tree starts
	if err := unix.Fstat(fds[1], &st); err != nil {
		return nil, fmt.Errorf("stat the page: %w", err)
	}
	t := &tree{origin: origin{time.Unix(st.Mtim.Unix()), ours}, conn: conn, listener: fds[0], passEnded: make(chan struct{})}
	tv := unix.NsecToTimeval(int64(heldFor))
	if err := unix.SetsockoptTimeval(conn, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
		return nil, err
	}
	t.page, err = mapPage(fds[1])
	if err != nil {
		return nil, fmt.Errorf("map the page: %w", err)
	}
	if err := unix.Pipe2(t.pass[:], unix.O_CLOEXEC); err != nil {
		return nil, errors.Join(err, unix.Munmap(t.page))
	}
	fds = fds[1:] // the listener stays open
	return t, nil
}

// serve passes each call of the tree to see, until all processes of the tree have ended. It begins
// with the calls that a killed recorder had received but not answered, if there are any.
func (t *tree) serve(see func(*notifier.Notice, origin) bool) {
	defer func() {
		for _, fd := range []int{t.listener, t.pass[0], t.pass[1]} {
			unix.Close(fd)
		}
		_ = unix.Munmap(t.page)
	}()
	late := newAlarm(heldFor, func(id uint64) {
		t.letPass(id)
		t.passEnded <- struct{}{}
	})
	look := func(n *notifier.Notice) {
		n.Read = t.read
		late.begin(n.ID)
		if !see(n, t.origin) && n.Waits(t.listener) {
			t.page.unseen(1)
		}
		if late.end() {
			_, _ = unix.Write(t.pass[1], []byte{0})
			<-t.passEnded
		}
	}
	notices := t.page.notices()
	for _, b := range notices {
		if n := notifier.Unanswered(t.listener, b); n != nil {
			look(n)
			notifier.Continue(t.listener, n.ID)
		}
	}
	notifier.Serve(t.listener, -1, notices[0], look)
}

// alarm calls ring for each call whose examination takes longer than limit. It does not set its
// timer for every call, because Go's runtime wakes a thread for each new timer.
type alarm struct {
	limit time.Duration
	ring  func(id uint64)

	// mu guards the fields below.
	mu    sync.Mutex
	timer *time.Timer
	set   bool // the timer runs
	id    uint64
	began time.Time // zero while no call is being examined
	rings bool      // ring was called, or is about to be called, with the present call
}

func newAlarm(limit time.Duration, ring func(id uint64)) *alarm {
	a := &alarm{limit: limit, ring: ring}
	a.timer = time.AfterFunc(math.MaxInt64, a.check)
	return a
}

func (a *alarm) begin(id uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.id, a.began = id, time.Now()
	a.rings = false
	if !a.set {
		a.set = true
		a.timer.Reset(a.limit)
	}
}

// end reports whether ring was called, or is about to be called, with the call that has ended.
func (a *alarm) end() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.began = time.Time{}
	return a.rings
}

func (a *alarm) check() {
	a.mu.Lock()
	id, rest := a.id, a.limit-time.Since(a.began)
	busy := !a.began.IsZero()
	a.rings = busy && rest <= 0
	a.set = busy && rest > 0
	if a.set {
		a.timer.Reset(rest)
	}
	rings := a.rings
	a.mu.Unlock()
	if rings {
		a.ring(id)
	}
}

// letPass lets through a call whose examination takes too long, and all other calls that arrive in
// the meantime.
func (t *tree) letPass(id uint64) {
	t.page.unseen(1)
	notifier.Continue(t.listener, id)
	notifier.Serve(t.listener, t.pass[0], t.page.notices()[1], func(*notifier.Notice) { t.page.unseen(1) })
	_, _ = unix.Read(t.pass[0], make([]byte, 1))
}

// A request to the process that runs a tree consists of a process, an address and a size. The reply
// is the memory at that address, up to the first byte that cannot be read.
const (
	readSize = 16
	maxRead  = 512
)

func parseRead(b []byte) (pid uint32, addr uint64, size int) {
	e := binary.NativeEndian
	return e.Uint32(b), e.Uint64(b[8:]), int(e.Uint32(b[4:]))
}

// read reads a caller's memory. Where only an ancestor may read that memory (Yama), the process
// that runs the tree reads it for us, if that process still exists.
func (t *tree) read(pid uint32, addr uint64, buf []byte) bool {
	if notifier.Peek(pid, addr, buf) {
		return true
	}
	e := binary.NativeEndian
	b := e.AppendUint64(e.AppendUint32(e.AppendUint32(make([]byte, 0, readSize), pid), uint32(len(buf))), addr)
	if err := unix.Sendto(t.conn, b, unix.MSG_NOSIGNAL, nil); err != nil {
		return false
	}
	n, err := receive(t.conn, buf)
	if err != nil {
		t.conn = -1 // a late reply would be mistaken for the next reply
	}
	return err == nil && n == len(buf)
}
