//go:build linux || darwin

package fusefs

import (
	"time"

	"golang.org/x/sys/unix"
)

const (
	// crowdLasts is for how many requests more than one thread waits after some requests
	// were seen to queue.
	crowdLasts = 128
	// watchEvery is how long requests may find no waiting thread while a handler takes
	// its time. After stillAfter such periods without a request the watch rests.
	watchEvery = time.Millisecond
	stillAfter = 40

	// forgetTurn is how many requests the kernel hands out before a FORGET that waits
	// (fuse_dev_do_read: 8). A waiting FORGET also makes queued true, but it is no crowd.
	forgetTurn = 8

	// unawaited are the requests whose reply nobody waits for: that another one follows
	// at once is no sign of a crowd.
	unawaited = 1<<opForget | 1<<opBatchForget | 1<<opRelease | 1<<opReleaseDir | 1<<opInterrupt
	// lengthy are the requests that wait for a disk.
	lengthy = 1<<opFsync | 1<<opFsyncDir
)

// watch makes sure that some thread waits for requests while handlers take their time. It
// rests while nothing happens.
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
		if d.ready.Load() > 0 { // else nobody would wake it
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

// requestTaken is called by a thread that has read a request. task is who sent it (0: the
// kernel itself, or a task in another PID namespace), ready is how many threads still
// wait for a request.
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
	// A task waits for its reply before it asks again. While only one asks, it does not
	// wait for anything that queues. Reads are an exception: the kernel reads ahead.
	alone := task != 0 && op != opRead && d.lastTask.Swap(task) == task
	switch {
	case ready == 0 && !alone && taken-d.forgetAt.Load() > forgetTurn && d.queued():
		d.crowd.Store(taken)
		d.spawn()
	case ready == 0 && lengthy&(1<<op) != 0:
		d.spawn()
	}
}

// queued reports whether there are requests that nobody has read.
func (d *device) queued() bool {
	p := []unix.PollFd{{Fd: int32(d.fd), Events: unix.POLLIN}}
	n, err := unix.Poll(p, 0)
	return err == nil && n > 0
}

// enough reports whether n waiting threads are more than are needed.
func (d *device) enough(n int32) bool {
	return n > maxReady || n > 1 && d.taken.Load()-d.crowd.Load() > crowdLasts
}
