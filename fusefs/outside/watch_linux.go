//go:build linux && (amd64 || arm64)

package outside

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"cachebro/store/leaf/notifier"
	"cachebro/store/leaf/text"
	"cachebro/store/wire"

	"golang.org/x/sys/unix"
)

// Watch shows a recorder the calls of a tree. It is in the process that starts the tree:
// only an ancestor may read what a call points to.
type Watch struct {
	paths    wire.Paths
	begin    []byte // the packet that tells of the tree
	socket   string
	start    func() error // starts a recorder
	trouble  func(error)  // is told once when the net has failed
	gap      func()       // is told when a recorder has died and another one goes on
	listener int
	memfd    int
	page     []byte

	// The goroutine that serves owns these.
	conn    int    // -1: there is none
	waitsID []byte // of a call that went on without its answer; nil: none
	starts  []time.Time
	failed  bool
	unseen  int // calls that went on without having been looked at

	ended chan bool // the tree has: nothing is left of it
	stop  [2]int    // a pipe that ends the serving
	once  sync.Once
}

const (
	startWithin = 5 * time.Second
	// mostStarts within soon: a recorder that dies again and again is of no use.
	mostStarts = 5
	soon       = 10 * time.Second
)

// NewWatch begins to show the calls of a listener's tree to the user's recorder; start
// starts one, trouble and gap hear of its end. It takes the listener over.
func NewWatch(p wire.Paths, listener int, start func() error, trouble func(error), gap func()) *Watch {
	return newWatch(p, []byte{doWatch}, listener, start, trouble, gap)
}

// Watched carries out work of ours on a thread whose calls are shown to the recorder, so
// that the histories have it. false: that cannot be, and it was not carried out.
func Watched(p wire.Paths, self string, start, work func() error) (bool, error) {
	listener, err := make(chan int), make(chan error, 1)
	watched := make(chan bool)
	go func() {
		fd, uerr := notifier.Under(Filter())
		if uerr != nil {
			fd = -1
		}
		listener <- fd
		if <-watched && fd >= 0 {
			err <- work()
		}
		// The thread ends with the goroutine, which is locked to it.
	}()
	fd := <-listener
	if fd < 0 {
		watched <- false
		return false, nil
	}
	w := newWatch(p, []byte{doWatch, 1}, fd, start, func(error) {}, func() {})
	watched <- true
	failed := <-err
	unseen, serr := w.End(self)
	if unseen > 0 {
		serr = errors.Join(serr, fmt.Errorf("%s could not be looked at", text.Count(unseen, "system call")))
	}
	return true, errors.Join(failed, serr)
}

func newWatch(p wire.Paths, begin []byte, listener int, start func() error, trouble func(error), gap func()) *Watch {
	w := &Watch{paths: p, begin: begin, start: start, trouble: trouble, gap: gap, listener: listener, memfd: -1, conn: -1, ended: make(chan bool, 1), stop: [2]int{-1, -1}}
	var err error
	w.socket, err = p.NetSocket()
	if err == nil {
		err = unix.Pipe2(w.stop[:], unix.O_CLOEXEC)
	}
	if err == nil {
		w.memfd, err = unix.MemfdCreate("cachebro-call", unix.MFD_CLOEXEC)
	}
	if err == nil {
		err = unix.Ftruncate(w.memfd, pageSize)
	}
	if err == nil {
		w.page, err = unix.Mmap(w.memfd, 0, pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err == nil {
		err = w.attach()
	}
	if w.page == nil {
		w.page = make([]byte, pageSize)
	}
	if err != nil {
		w.fail(err)
	}
	go func() { w.ended <- notifier.Serve(w.listener, w.stop[0], w.page[:notifier.NoticeSize], w.see) }()
	return w
}

// fail: from now on everything goes on unseen.
func (w *Watch) fail(err error) {
	w.failed = true
	w.drop()
	w.once.Do(func() { w.trouble(err) })
}

func (w *Watch) drop() {
	if w.conn >= 0 {
		unix.Close(w.conn)
	}
	w.conn, w.waitsID = -1, nil
}

// attach finds or starts a recorder, and tells it of the tree.
func (w *Watch) attach() error {
	var failed error
	for deadline := time.Now().Add(startWithin); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		conn, err := dial(w.socket)
		if err != nil {
			err = w.start()
			if err == nil {
				conn, err = dial(w.socket)
			}
		}
		if err == nil {
			err = ask(conn, w.begin, startWithin, w.listener, w.memfd)
			if err == nil {
				w.conn = conn
				return nil
			}
			unix.Close(conn) // it was about to end
		}
		failed = err
	}
	return fmt.Errorf("the recorder does not answer: %w", failed)
}

// again brings up another recorder.
func (w *Watch) again() {
	now := time.Now()
	w.starts = keep(w.starts, func(t time.Time) bool { return now.Sub(t) < soon })
	w.starts = append(w.starts, now)
	if len(w.starts) > mostStarts {
		w.fail(errors.New("the recorder ends again and again"))
		return
	}
	if err := w.attach(); err != nil {
		w.fail(err)
		return
	}
	w.gap()
}

// see shows the recorder one call, and returns when that may go on. A recorder that ends
// meanwhile may have looked at it or not: the next one is shown it again.
func (w *Watch) see(n *notifier.Notice) {
	packet, err := w.pack(n)
	switch {
	case err != nil: // it cannot be seen, or fails by itself
		if n.Waits(w.listener) {
			w.unseen++
		}
		return
	case w.waitsID != nil && !w.answered(unix.MSG_DONTWAIT): // it is still busy with an earlier one
		w.unseen++
		return
	}
	for !w.failed {
		if w.conn < 0 {
			w.again()
			continue
		}
		if err := unix.Sendto(w.conn, packet, unix.MSG_NOSIGNAL, nil); err != nil {
			w.drop()
			continue
		}
		w.waitsID = bytes.Clone(packet[1:answerSize])
		answered := w.answered(0)
		if w.conn >= 0 {
			if !answered {
				w.unseen++
			}
			return
		}
	}
	w.unseen++
}

// pack packs a call in the page: whoever has that can show it when we are killed.
func (w *Watch) pack(n *notifier.Notice) ([]byte, error) {
	size := (*uint32)(unsafe.Pointer(&w.page[packedSize]))
	atomic.StoreUint32(size, 0)
	packet, err := n.Pack(append(w.page[packedAt:packedAt], doCall), w.page)
	if err == nil && len(packet) <= len(w.page)-packedAt {
		atomic.StoreUint32(size, uint32(len(packet)))
	}
	return packet, err
}

// answered takes in the answer to the call that waits for one; false: it has not come in
// time. When the recorder has ended there is no connection afterwards.
func (w *Watch) answered(flags int) bool {
	var b [answerSize]byte
	for {
		n, _, err := unix.Recvfrom(w.conn, b[:], flags)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN: // heldFor has passed
			return false
		case err != nil || n == 0:
			w.drop()
			return true
		case bytes.Equal(b[1:n], w.waitsID):
			w.waitsID = nil
			return true
		}
	}
}

// End is called when the command has ended. What it left running is seen by the recorder
// from now on. self is this binary. unseen counts calls that nobody could look at before
// they went on.
func (w *Watch) End(self string) (unseen int, err error) {
	err = Settle(w.paths, SettleWithin, w.start)
	_, _ = unix.Write(w.stop[1], []byte{0})
	if ended := <-w.ended; !ended && w.conn < 0 {
		if fd, derr := unix.Dup(w.listener); derr == nil {
			notifier.Leave(self, os.NewFile(uintptr(fd), "listener"))
		}
	}
	w.drop()
	for _, fd := range []int{w.stop[0], w.stop[1], w.memfd, w.listener} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	return w.unseen, err
}
