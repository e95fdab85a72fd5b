//go:build linux || darwin

package fusefs

import (
	"encoding/binary"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"cachebro/fusefs/changes"
	"cachebro/fusefs/sys"
	"cachebro/store/leaf/loop"
)

const (
	maxRequest = 1 << 20             // data bytes in a READ or WRITE
	bufSize    = maxRequest + 64<<10 // maxRequest and room for the headers
	maxReady   = 2                   // threads that wait for a request at the same time
	maxParked  = 16                  // idle threads that may wait to be used again
	maxOpcode  = 64                  // opcodes that are counted

	opForget      = 2
	opRead        = 15
	opRelease     = 18
	opFsync       = 20
	opInit        = 26
	opReleaseDir  = 29
	opFsyncDir    = 30
	opSetLkw      = 33
	opInterrupt   = 36
	opBatchForget = 42
)

// device reads requests from /dev/fuse and passes them to the handlers. Each loop has its own
// thread, whose umask and file system identity it may change, and buffers outside the Go heap.
//
// Usually one thread handles all requests. Its reply wakes the caller on the same processor, and
// the caller's next request arrives before the thread reads again, so a request costs two context
// switches on one processor. With a second waiting thread, the kernel would wake the two by turns
// on different processors; then an unlink took 90 µs instead of 40. More threads read as soon as
// requests queue. A handler may block until another request is handled, so the method watch starts
// another thread within two milliseconds.
type device struct {
	fd     int
	proto  *fuse.ProtocolServer
	ledger *ledger // nil if no server can take over
	log    *slog.Logger
	// While changes is active, note records there what each request changed.
	changes *changes.Tracker
	note    func(op uint32, in, out []byte)
	// interrupted is called for each INTERRUPT, and reports whether it ended a wait for a lock.
	interrupted func(unique uint64) bool

	// ready counts the threads that wait for a request or are about to, including those just
	// started. If those did not count, each request that arrives before they read would start
	// another thread. A busy machine once had 10,000 threads.
	ready    atomic.Int32
	readTurn sync.Mutex // held while a request is read, if readersInTurn is true
	parked   atomic.Int32
	threads  atomic.Int32
	loops    sync.WaitGroup
	more     chan struct{} // wakes a parked thread; never closed
	taken    atomic.Uint64 // requests read
	crowd    atomic.Uint64 // the value of taken when requests last queued
	forgetAt atomic.Uint64 // the value of taken at the last FORGET
	lastTask atomic.Uint32 // the task that sent the last request
	idle     atomic.Bool   // watch is paused until woken
	woken    chan struct{} // wakes watch; capacity 1
	ended    chan struct{} // closed by the first loop that sees that the connection has ended
	endOnce  sync.Once
	counts   [maxOpcode]atomic.Uint64
	// released counts the RELEASEs that were handled. No process waits for the replies.
	released atomic.Uint64

	// init is the kernel's INIT request, which a successor needs.
	init []byte
}

// handshake answers the first request, which is INIT.
func (d *device) handshake() error {
	buf := make([]byte, bufSize)
	for {
		n, err := unix.Read(d.fd, buf)
		if err == unix.EINTR || err == unix.EAGAIN || err == unix.ENOENT {
			continue
		}
		if err != nil {
			return err
		}
		if n >= 40 && binary.NativeEndian.Uint32(buf[4:]) == opInit {
			d.init = append([]byte(nil), buf[:n]...)
		}
		out := make([]byte, 4096)
		m, st := d.proto.HandleRequest([][]byte{buf[:n]}, [][]byte{out})
		if !st.Ok() {
			return unix.Errno(st)
		}
		if d.init != nil {
			d.ledger.setInit(d.init, out[:m])
		}
		if _, err := unix.Write(d.fd, out[:m]); err != nil {
			return err
		}
		if d.init != nil {
			return nil
		}
	}
}

func (d *device) start() {
	d.more, d.ended = make(chan struct{}), make(chan struct{})
	d.woken = make(chan struct{}, 1)
	d.spawn()
	go d.watch()
}

// spawn makes another thread wait for requests. It uses a parked thread if there is one.
func (d *device) spawn() {
	d.ready.Add(1)
	select {
	case d.more <- struct{}{}:
		return
	default:
	}
	d.loops.Add(1)
	d.threads.Add(1)
	go d.loop()
}

// park waits until another thread is needed, or returns false if this one is not needed any more.
// The thread that wakes a parked thread has already counted it in ready. Spare threads park,
// because the kernel wakes waiting threads in turn, and with fewer of them the processor's caches
// stay warmer.
func (d *device) park() bool {
	if d.parked.Add(1) > maxParked {
		d.parked.Add(-1)
		return false
	}
	defer d.parked.Add(-1)
	select {
	case <-d.more:
		return true
	case <-d.ended:
		return false
	}
}

// buffer returns a buffer for the largest request or reply. It is outside the Go heap, and only its
// used pages take memory.
func buffer() (b []byte, drop func()) {
	b, err := unix.Mmap(-1, 0, bufSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return make([]byte, bufSize), func() {}
	}
	return b, func() { _ = unix.Munmap(b) }
}

// The first and the longest pause while requests cannot be read.
const (
	readPause = time.Millisecond
	readLast  = time.Second
)

// loop serves requests until the connection ends or enough other loops are running. When it
// returns, its thread ends too, because the thread's identity may have been changed.
func (d *device) loop() {
	defer d.loops.Done()
	defer d.threads.Add(-1)
	runtime.LockOSThread()
	sys.NoUmask() // modes come from the requests
	noReserves()
	in, drop := buffer()
	defer drop()
	if d.ledger != nil {
		// Allocate the buffer's pages now. If the server is killed while the kernel copies a
		// request to an unallocated page, the request fails with EIO and cannot be sent again.
		sys.Populate(in)
	}
	out, drop := buffer()
	defer drop()
	inv, outv := make([][]byte, 1), make([][]byte, 1)
	pause := readPause
	for {
		n, err := d.next(in)
		switch {
		case err == unix.EINTR || err == unix.EAGAIN || err == unix.ENOENT:
			continue
		case ended(err):
			d.endOnce.Do(func() { close(d.ended) })
			return
		case err != nil: // only this request failed
			d.log.Error("read a request", "error", err)
			time.Sleep(pause)
			pause = min(2*pause, readLast)
			continue
		case n < 40:
			continue
		}
		pause = readPause
		op := binary.NativeEndian.Uint32(in[4:])
		if op < maxOpcode {
			d.counts[op].Add(1)
		}
		d.taken.Add(1)
		d.requestTaken(op, binary.NativeEndian.Uint32(in[32:]), d.ready.Add(-1))
		inv[0], outv[0] = in[:n], out
		m := 0
		if op != opInterrupt || n < 48 || !d.interrupted(binary.NativeEndian.Uint64(in[40:])) {
			var st fuse.Status
			m, st = d.proto.HandleRequest(inv, outv)
			switch {
			case !st.Ok():
				m = failure(out, in, st)
			case op == opSetLkw && m > 0 && fuse.Status(-int32(binary.NativeEndian.Uint32(out[4:]))) == statusLater:
				m = 0
			case op == opInterrupt && n >= 48 && d.interrupted(binary.NativeEndian.Uint64(in[40:])):
				// go-fuse did not find the request to interrupt. That request has since been
				// registered, and d.interrupted has ended its wait (see SetLkw). So go-fuse's
				// answer, that there is no such request, is not sent.
				m = 0
			}
		}
		if op < maxOpcode && changing&(1<<op) != 0 && d.changes.Active() {
			d.note(op, in[:n], out[:m])
		}
		if m > 0 {
			// ENOENT: the request was interrupted, and no process waits for the reply.
			_, _ = loop.RetryValue(func() (int, error) { return unix.Write(d.fd, out[:m]) })
		}
		if op == opRelease {
			d.released.Add(1)
		}
		if d.ledger != nil && op < maxOpcode && attempts&(1<<op) != 0 {
			d.ledger.replied(binary.NativeEndian.Uint64(in[8:]))
		}
		if d.enough(d.ready.Add(1)) {
			d.ready.Add(-1)
			if !d.park() {
				return
			}
		}
	}
}

// releasing reports whether a RELEASE was read and not handled yet.
func (d *device) releasing() bool { return d.counts[opRelease].Load() != d.released.Load() }

func (d *device) next(in []byte) (int, error) {
	if !readersInTurn {
		return unix.Read(d.fd, in)
	}
	d.readTurn.Lock()
	defer d.readTurn.Unlock()
	select {
	case <-d.ended:
		return 0, unix.ENODEV
	default:
	}
	n, err := unix.Read(d.fd, in)
	if ended(err) {
		d.endOnce.Do(func() { close(d.ended) })
	}
	return n, err
}

// ended reports whether err means that the mount was unmounted, or the connection aborted or
// closed.
func ended(err error) bool {
	return err == unix.ENODEV || err == unix.ECONNABORTED || err == unix.EBADF
}

// failure writes the reply to a request that could not be decoded.
func failure(out, in []byte, st fuse.Status) int {
	binary.NativeEndian.PutUint32(out, 16)
	binary.NativeEndian.PutUint32(out[4:], uint32(-st))
	copy(out[8:16], in[8:16])
	return 16
}

// statusLater means that a request is answered later, through answer. The value is Linux's
// ERESTARTSYS, which no system call returns.
const statusLater = fuse.Status(512)

// answer replies to a request whose handler returned statusLater.
func (d *device) answer(unique uint64, st fuse.Status) {
	var head [40]byte
	binary.NativeEndian.PutUint64(head[8:], unique)
	out := make([]byte, 16)
	failure(out, head[:], st)
	_, _ = loop.RetryValue(func() (int, error) { return unix.Write(d.fd, out) })
}

// notify sends a notification, which is a reply that belongs to no request.
func (d *device) notify(code int32, body []byte) error {
	msg := make([]byte, 16+len(body))
	binary.NativeEndian.PutUint32(msg, uint32(len(msg)))
	binary.NativeEndian.PutUint32(msg[4:], uint32(code))
	copy(msg[16:], body)
	_, err := unix.Write(d.fd, msg)
	return err
}
