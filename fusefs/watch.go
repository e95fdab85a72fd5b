//go:build linux || darwin

package fusefs

import (
	"time"

	"golang.org/x/sys/unix"
)

const (
	// After requests queued, several threads keep waiting for the next crowdLasts requests.
	crowdLasts = 128
	// watchEvery is how often watch checks that a thread waits for requests. After stillAfter
	// checks without a request, watch pauses.
	watchEvery = time.Millisecond
	stillAfter = 40

	// forgetTurn is how many requests the kernel delivers before a waiting FORGET (8 in
	// fuse_dev_do_read). A waiting FORGET makes queued return true, but no program waits for it.
	forgetTurn = 8

	// unawaited are requests that no program waits for. A request that follows one at once may come
	// from the same program.
	unawaited = 1<<opForget | 1<<opBatchForget | 1<<opRelease | 1<<opReleaseDir | 1<<opInterrupt
	// lengthy are the requests that wait for the disk.
	lengthy = 1<<opFsync | 1<<opFsyncDir
)

// watch makes sure that a thread waits for requests even while others are busy in slow handlers. It
// pauses while no requests arrive.
func (d *device) watch() {
	t := time.NewTicker(watchEvery)
	defer t.Stop()
	for quiet, last := 0, uint64(0); ; {
		select {
		case <-d.ended:
			return
		case <-t.C:
		}
		taken := d.taken.Load()
		switch {
		case taken != last:
			quiet = 0
		case d.ready.Load() == 0:
			d.spawn()
		default:
			quiet++
		}
		last = taken
		if quiet < stillAfter {
			continue
		}
		t.Stop()
		d.idle.Store(true)
		if d.ready.Load() > 0 { // otherwise no thread would read a request and wake watch
			select {
			case <-d.ended:
				return
			case <-d.woken:
			}
		}
		d.idle.Store(false)
		quiet = 0
		t.Reset(watchEvery)
	}
}

// requestTaken is called by a thread that has read a request. task is the sending thread's id, or 0
// for the kernel itself and other PID namespaces. ready is how many threads still wait for a
// request.
func (d *device) requestTaken(op, task uint32, ready int32) {
	if ready == 0 && d.idle.Load() && d.idle.CompareAndSwap(true, false) {
		select {
		case d.woken <- struct{}{}:
		default:
		}
	}
	taken := d.taken.Load()
	if op == opForget || op == opBatchForget {
		d.forgetAt.Store(taken)
	}
	if op >= maxOpcode || unawaited&(1<<op) != 0 {
		return
	}
	// A task waits for the reply before it sends another request. So requests do not queue while
	// only one task sends them. Reads are an exception, because the kernel reads ahead.
	alone := task != 0 && op != opRead && d.lastTask.Swap(task) == task
	switch {
	case ready == 0 && !alone && taken-d.forgetAt.Load() > forgetTurn && d.queued():
		d.crowd.Store(taken)
		d.spawn()
	case ready == 0 && lengthy&(1<<op) != 0:
		d.spawn()
	}
}

// queued reports whether there are unread requests.
func (d *device) queued() bool {
	p := []unix.PollFd{{Fd: int32(d.fd), Events: unix.POLLIN}}
	n, err := unix.Poll(p, 0)
	return err == nil && n > 0
}

// enough reports whether n waiting threads are more than needed.
func (d *device) enough(n int32) bool {
	return n > maxReady || n > 1 && d.taken.Load()-d.crowd.Load() > crowdLasts
}
