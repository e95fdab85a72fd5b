package daemon

import (
	"context"
	"strconv"
	"time"

	"cachebro/store/daemon/waits"
	"cachebro/store/wire"
)

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
	again, ended := d.mount.begin(a, d.away.Swap)
	if ended {
		d.keepWatch(keepAway, strconv.FormatBool(false))
	}
	keep = true
	d.source.Set(r.Files[0], "mountd")
	d.log.Info("mount attached", "pid", a.PID, "mountpoint", a.Mountpoint, "again", again)
	if !again {
		d.baseline.request(true)
	}
	d.ingest.Poke()
	return d.heartbeatAnswer(), nil, nil
}

func (d *Daemon) heartbeat(_ context.Context, r *wire.Request) (any, []byte, error) {
	var b wire.Heartbeat
	if err := r.Decode(&b); err != nil {
		return nil, nil, err
	}
	if !d.mount.beats(b) { // we were restarted: it has to introduce itself again
		return nil, nil, wire.Errorf(wire.ErrNotFound, "", "the mount is not attached to this daemon")
	}
	d.ingest.Poke()
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
	if d.mount.end(q.PID) {
		if !d.baseline.complete().IsZero() {
			d.watched(time.Now().Add(-time.Duration(waits.Tick)), true)
		}
		d.log.Info("mount detached", "pid", q.PID)
		d.source.Unmounted()
		d.ingest.Poke()
	}
	return wire.Empty{}, nil, nil
}

func (d *Daemon) heartbeatAnswer() wire.HeartbeatAnswer {
	ok, reason := d.ingest.Health()
	return wire.HeartbeatAnswer{Healthy: ok, Reason: reason, Ingested: d.ingest.LastSeq(), BaselineStart: d.baseline.complete()}
}
