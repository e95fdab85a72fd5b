package supervisor

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"cachebro/store/leaf/loop"
	"cachebro/store/wire"
)

// beatEvery is the interval of heartbeats between mountd and the daemon while there is something to
// report. It bounds how long the death of a daemon can go unnoticed. Once the daemon has ingested
// everything, there are no heartbeats until the next record, and the daemon may end unnoticed.
const beatEvery = 2 * time.Second

// maxPause is the longest pause between two attempts to start the daemon.
const maxPause = 30 * time.Second

// link keeps mountd connected to the daemon: it starts the daemon if none runs, attaches to it, and
// exchanges heartbeats. Its errors never reach a program that waits for I/O. Without a daemon,
// records stay in the spool.
type link struct {
	s       *session
	client  *wire.Client  // nil before the first dial
	poke    chan struct{} // capacity 1: send a heartbeat now; never closed
	records chan struct{} // capacity 1: a record was spooled, so begin heartbeats again; never closed
	resumed chan struct{} // capacity 1: heartbeats began again; never closed
	wg      sync.WaitGroup

	// mu guards the fields below.
	mu           sync.Mutex
	attached     int  // pid of the daemon that knows this mount, or 0
	rests        bool // no heartbeats are sent until the next record
	sends        bool // the history is sent to a bucket
	attach       wire.Attach
	unmountAcked chan struct{} // closed when a daemon has acknowledged the unmount at the mountpoint
	acked        bool          // unmountAcked is closed
}

func (l *link) resting() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rests
}

// bypass returns what the daemon is told about changes that bypass the mount.
func (l *link) bypass() wire.Bypass {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.attach.Bypass
}

// setBypass changes what bypass returns.
func (l *link) setBypass(set func(*wire.Bypass)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	set(&l.attach.Bypass)
}

func (l *link) unmounted() bool { return l.bypass().Unmounted }

// missed counts the times at which changes that bypassed the mount could not be recorded in the
// spool.
func (l *link) missed() { l.setBypass(func(b *wire.Bypass) { b.Missed++ }) }

// tellUnmounted tells the daemon that the mount was unmounted at its mountpoint, and waits at most
// two seconds for the acknowledgement.
func (l *link) tellUnmounted() {
	l.mu.Lock()
	l.attach.Unmounted = true
	heard := l.unmountAcked
	l.mu.Unlock()
	l.hurry()
	select {
	case <-heard:
	case <-time.After(2 * time.Second):
	}
}

// remounted makes link report that the mount is on its mountpoint again.
func (l *link) remounted() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.attach.Unmounted, l.attach.Outside = false, true
	l.attached = 0
	l.acked, l.unmountAcked = false, make(chan struct{})
}

// acknowledge records that the daemon knows whether the mount is on its mountpoint.
func (l *link) acknowledge(unmounted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if unmounted && !l.acked {
		l.acked = true
		close(l.unmountAcked)
	}
}

// dial connects to the daemon, and starts it if none is running. Its errors are meant for users: a
// damaged store, a full disk, a state directory of another user.
func dial(ctx context.Context, c Config) (*wire.Client, error) {
	w, err := wire.DialOrStart(ctx, c.Paths, wire.Hello{Version: c.Version, Client: "mountd", Root: c.Root},
		wire.Timeouts{Connect: 5 * time.Second, Answer: 10 * time.Second},
		wire.Start{Self: c.Exe, Replace: true, Within: 20 * time.Second})
	return w, Explain(err, c.State)
}

func (l *link) run(ctx context.Context) {
	l.wg.Go(func() {
		pause := beatEvery
		for {
			ok, rest := l.exchange(ctx)
			pause = min(pause*2, maxPause)
			if ok {
				pause = beatEvery
			}
			l.mu.Lock()
			l.rests = rest
			l.mu.Unlock()
			var next <-chan time.Time
			records := l.records
			if !rest {
				next, records = time.After(pause), nil
			}
			select {
			case <-ctx.Done():
				return
			case <-l.poke:
			case <-records:
				loop.Wake(l.resumed)
			case <-next:
			}
		}
	})
}

// exchange sends one heartbeat and handles the answer. If the daemon does not know this mount,
// exchange attaches to it. rest reports whether nothing is left to report.
func (l *link) exchange(ctx context.Context) (ok, rest bool) {
	if l.client == nil {
		c, err := dial(ctx, l.s.c)
		if err != nil {
			if ctx.Err() == nil {
				l.s.logger.Warn("the store daemon does not answer", "error", err)
				l.s.applyState(wire.HeartbeatAnswer{Healthy: false, Reason: err.Error()})
			}
			return false, false
		}
		l.client = c
	}
	var ans wire.HeartbeatAnswer
	beat := l.s.heartbeat()
	_, err := l.client.Call(ctx, wire.MHeartbeat, beat, nil, &ans)
	gone := errors.Is(err, wire.ErrNoDaemon) || errors.Is(err, wire.ErrTimeout) || ctx.Err() != nil
	l.mu.Lock()
	known := l.attached == l.client.Hello().PID && l.attached != 0
	l.mu.Unlock()
	switch {
	case err == nil && known:
		l.acknowledge(beat.Unmounted)
		l.s.applyState(ans)
		l.mu.Lock()
		l.sends = ans.Sends
		l.mu.Unlock()
		return true, l.s.atRest(ans)
	case !gone && !known: // a new daemon, which does not know this mount
		err = l.introduce(ctx)
	}
	if err != nil && ctx.Err() == nil {
		l.s.logger.Warn("the store daemon does not answer", "error", err)
		l.s.applyState(wire.HeartbeatAnswer{Healthy: false, Reason: err.Error()})
	}
	return err == nil, false
}

// introduce attaches to the daemon: it tells the daemon which process serves the mount, and passes
// it a descriptor of the source.
func (l *link) introduce(ctx context.Context) error {
	l.mu.Lock()
	a := l.attach
	l.mu.Unlock()
	l.s.capture.Introduce(l.s.server.EachDirty)
	ans, err := l.client.Attach(ctx, a, l.s.handed.Source)
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.attached = l.client.Hello().PID
	l.mu.Unlock()
	l.acknowledge(a.Unmounted)
	l.s.logger.Info("attached", "daemon", l.client.Hello().PID)
	l.s.applyState(ans)
	return nil
}

func (l *link) hurry() { loop.Wake(l.poke) }

// recordSpooled makes heartbeats begin again. It is called when a record was spooled.
func (l *link) recordSpooled() { loop.Wake(l.records) }

// restedToEnd reports whether neither mountd nor the daemon has anything left to send.
func (l *link) restedToEnd() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rests && len(l.records) == 0 && !l.sends && !l.attach.Unmounted
}

// bye ends the link. The context of run must already be cancelled. A daemon that misses this
// message notices that mountd has exited.
func (l *link) bye() {
	l.wg.Wait()
	if l.client == nil {
		return
	}
	defer l.client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if l.restedToEnd() {
		left, err := l.s.recordEnd(ctx)
		if left && err == nil {
			return
		}
		if err != nil {
			l.s.logger.Warn("cannot record that the mount has ended", "error", err)
		}
	}
	if _, err := l.client.Call(ctx, wire.MDetach, wire.Detach{PID: os.Getpid()}, nil, nil); err != nil {
		l.s.logger.Warn("cannot tell the store daemon that the mount has ended", "error", err)
	}
}
