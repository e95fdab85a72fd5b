//go:build linux || darwin

package fusefs

import (
	"time"

	"golang.org/x/sys/unix"
)

const (
	// crowdLasts is how many requests more than one thread waits for after some
	// were seen to queue.
	crowdLasts = 128
	// watchEvery is how long requests may find nobody who waits for them while
	// a handler takes its time; stillAfter is how many such times without any
	// request end the watch.
	watchEvery = time.Millisecond
	stillAfter = 40

	// forgetTurn is how many requests the kernel hands out before a FORGET that
	// waits (fuse_dev_do_read: 8). Whether there are requests is asked for those
	// too, and they are no crowd.
	forgetTurn = 8

	// unawaited are the requests whose reply nobody waits for: that another
	// one is there already says nothing of a crowd.
	unawaited = 1<<opForget | 1<<opBatchForget | 1<<opRelease | 1<<opReleaseDir | 1<<opInterrupt
	// lengthy are those that wait for a disk.
	lengthy = 1<<opFsync | 1<<opFsyncDir
)

// watch sees to it that somebody waits for requests while handlers take their
// time. It rests while nothing happens.
func (d *device) watch() {
	t := time.NewTicker(watchEvery)
	defer t.Stop()
	for quiet, last := 0, uint64(0); ; {
		select {
		case <-d.over:
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
			case <-d.over:
				return
			case <-d.woken:
			}
		}
		d.idle.Store(false)
		quiet = 0
		t.Reset(watchEvery)
	}
}

// left is called by a thread that has read a request; task is who asks (0: the
// kernel itself, or one of another PID namespace), ready is how many still wait
// for a request.
func (d *device) left(op, task uint32, ready int32) {
	if ready == 0 && d.idle.Load() && d.idle.CompareAndSwap(true, false) {
		select {
		case d.woken <- struct{}{}:
		default:
		}
	}
	taken := d.taken.Load()
	if op == opForget || op == opBatchForget {
		d.forgot.Store(taken)
	}
	if op >= maxOpcode || unawaited&(1<<op) != 0 {
		return
	}
	// A task waits for its reply before it asks again: as long as one alone asks
	// what queues is nothing that it waits for. It reads ahead, though.
	alone := task != 0 && op != opRead && d.asked.Swap(task) == task
	switch {
	case ready == 0 && !alone && taken-d.forgot.Load() > forgetTurn && d.queued():
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

// enough reports whether n threads that wait are more than are needed.
func (d *device) enough(n int32) bool {
	return n > maxReady || n > 1 && d.taken.Load()-d.crowd.Load() > crowdLasts
}
