package daemon

import (
	"context"
	"strconv"
	"sync"
	"time"

	"cachebro/fusefs/procfs"
	"cachebro/store/daemon/attribution"
	"cachebro/store/wire"

	"golang.org/x/sys/unix"
)

// mounts is what the daemon knows of the project's mountd. There is at most one.
type mounts struct {
	// mu guards what follows.
	mu       sync.Mutex
	attached bool
	attach   wire.Attach
	start    uint64 // start time of mountd, so that its pid is not taken for another's
	process  int    // descriptor of that process; < 0: none is to be had; counts while attached
	since    time.Time
	until    int64 // when a time without a mount ended with this one; 0: nobody knows
	beat     wire.Heartbeat
	beatAt   time.Time
}

// attachMountd takes the source descriptor and begins the baseline.
func (d *Daemon) attachMountd(_ context.Context, r *wire.Request) (any, []byte, error) {
	keep := false
	defer func() {
		for i, f := range r.Files {
			if i > 0 || !keep {
				f.Close()
			}
		}
	}()
	var a wire.Attach
	if err := r.Decode(&a); err != nil {
		return nil, nil, err
	}
	if len(r.Files) != 1 {
		return nil, nil, wire.Errorf(wire.ErrBadRequest, "", "attach brings %d descriptors, not the one of the source directory", len(r.Files))
	}
	if fi, err := r.Files[0].Stat(); err != nil || !fi.IsDir() {
		return nil, nil, wire.Errorf(wire.ErrBadRequest, "", "the attached descriptor is no directory")
	}
	if a.PID == 0 {
		a.PID = r.Peer.PID
	}
	if a.Spool != "" && a.Spool != wire.SpoolDir(d.state) {
		return nil, nil, wire.Errorf(wire.ErrConflict, "cachebro umount, then cachebro mount, with the same CACHEBRO_DIR",
			"the mount spools to %s, this daemon reads %s", a.Spool, wire.SpoolDir(d.state))
	}
	st, err := procfs.ReadStat(a.PID)
	start := st.Start
	process := -1
	if err == nil {
		process = attribution.OpenProcess(a.PID)
	}
	ended := false
	d.mounts.mu.Lock()
	again := d.mounts.attached && d.mounts.attach.PID == a.PID && d.mounts.start == start
	d.mounts.forgetLocked()
	d.mounts.attached, d.mounts.attach, d.mounts.start, d.mounts.process = true, a, start, process
	if !again {
		d.mounts.since, d.mounts.until = time.Now(), 0
		if ended = d.away.Swap(false); ended { // not so where a mountd that died is followed by another
			d.mounts.until = d.mounts.since.UnixNano()
		}
		d.mounts.beat = wire.Heartbeat{Outside: a.Outside}
	}
	d.mounts.beatAt = time.Now()
	d.mounts.mu.Unlock()
	if ended {
		d.keepWatch(keepAway, strconv.FormatBool(false))
	}
	keep = true
	d.source.Set(r.Files[0], "mountd")
	d.log.Info("mount attached", "pid", a.PID, "mountpoint", a.Mountpoint, "again", again)
	if !again {
		d.baseline.request(true)
	}
	d.ingest.poke()
	return d.heartbeatAnswer(), nil, nil
}

func (d *Daemon) heartbeat(_ context.Context, r *wire.Request) (any, []byte, error) {
	var b wire.Heartbeat
	if err := r.Decode(&b); err != nil {
		return nil, nil, err
	}
	d.mounts.mu.Lock()
	known := d.mounts.attached
	if known {
		d.mounts.beat, d.mounts.beatAt = b, time.Now()
		d.mounts.attach.Outside = b.Outside
	}
	d.mounts.mu.Unlock()
	if !known { // we were restarted: it has to introduce itself again
		return nil, nil, wire.Errorf(wire.ErrNotFound, "", "the mount is not attached to this daemon")
	}
	d.ingest.poke()
	return d.heartbeatAnswer(), nil, nil
}

func (d *Daemon) detach(_ context.Context, r *wire.Request) (any, []byte, error) {
	var q wire.Detach
	if err := r.Decode(&q); err != nil {
		return nil, nil, err
	}
	if q.PID == 0 {
		q.PID = r.Peer.PID
	}
	d.mounts.mu.Lock()
	ours := d.mounts.attached && d.mounts.attach.PID == q.PID
	if ours {
		d.mounts.forgetLocked()
	}
	d.mounts.mu.Unlock()
	if ours {
		if !d.baseline.complete().IsZero() {
			d.watched(time.Now().Add(-time.Duration(tick)), true)
		}
		d.log.Info("mount detached", "pid", q.PID)
		d.source.Unmounted()
		d.ingest.poke()
	}
	return wire.Empty{}, nil, nil
}

func (d *Daemon) heartbeatAnswer() wire.HeartbeatAnswer {
	h := d.ingest.healthNow()
	return wire.HeartbeatAnswer{Healthy: h.ok, Reason: h.reason, Ingested: d.ingest.seq.Load(), BaselineStart: d.baseline.complete()}
}

// state is a copy of what is known; a mountd that has died is noticed here.
func (m *mounts) state() (attached bool, a wire.Attach, b wire.Heartbeat) {
	m.mu.Lock()
	a, b, attached = m.attach, m.beat, m.attached
	start, asked := m.start, attached && m.process >= 0
	if asked && attribution.Ended(m.process) {
		m.forgetLocked()
		attached = false
	}
	m.mu.Unlock()
	if attached && !asked && !attribution.Alive(a.PID, start) {
		m.mu.Lock()
		if m.attach.PID == a.PID && m.start == start {
			m.forgetLocked()
		}
		m.mu.Unlock()
		return false, a, b
	}
	return attached, a, b
}

// forgetLocked takes the mount for gone; mu is held.
func (m *mounts) forgetLocked() {
	if m.attached && m.process >= 0 {
		_ = unix.Close(m.process)
	}
	m.attached, m.process = false, -1
}

func (m *mounts) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forgetLocked()
}

func (m *mounts) mounted() bool {
	ok, _, _ := m.state()
	return ok
}

// away is until when nothing was mounted, 0 unless that is known.
func (m *mounts) away() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.attached {
		return 0
	}
	return m.until
}

func (m *mounts) mountpoint() string {
	if ok, a, _ := m.state(); ok {
		return a.Mountpoint
	}
	return ""
}
