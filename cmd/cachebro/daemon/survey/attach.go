package survey

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"cachebro/cmd/cachebro/daemon/attribution"
	"cachebro/cmd/cachebro/daemon/ingest"
	"cachebro/store"
	"cachebro/store/wire"
)

// attachMountd stores the source descriptor and begins the baseline.
func (s *Survey) attachMountd(_ context.Context, r *wire.Request) (any, []byte, error) {
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
		return nil, nil, wire.Errorf(wire.ErrBadRequest, "", "attach needs one descriptor, of the source directory, but has %d", len(r.Files))
	}
	if fi, err := r.Files[0].Stat(); err != nil || !fi.IsDir() {
		return nil, nil, wire.Errorf(wire.ErrBadRequest, "", "the attached descriptor is not a directory")
	}
	a.PID = cmp.Or(a.PID, r.Peer.PID)
	if a.Spool != "" && a.Spool != wire.SpoolDir(s.State) {
		return nil, nil, wire.Errorf(wire.ErrConflict, "cachebro umount, then cachebro mount, with the same CACHEBRO_DIR",
			"the mount spools to %s, this daemon reads %s", a.Spool, wire.SpoolDir(s.State))
	}
	last := s.scannedFor(a.PID)
	again, ended := s.mount.begin(a, last, s.unmountedSince.Swap)
	if ended {
		s.keep(keepAway, strconv.FormatBool(false))
	}
	keep = true
	s.Source.Set(r.Files[0], "mountd")
	s.Log.Info("mount attached", "pid", a.PID, "mountpoint", a.Mountpoint, "again", again, "unmounted", a.Unmounted)
	if a.Unmounted {
		s.keep(keepScanned, "") // nothing was reported since the unmount
		s.Source.Unmounted()
	} else if last != nil && !again {
		s.baseline.adoptScan(last.Scan)
	} else if !again {
		s.outdated.Store(s.Store.Seq() > 0)
		s.baseline.request(true)
	}
	s.Ingest.Poke()
	return s.heartbeatAnswer(), nil, nil
}

func (s *Survey) heartbeat(_ context.Context, r *wire.Request, b wire.Heartbeat) (any, []byte, error) {
	known, unmounted := s.mount.heartbeat(b)
	if !known { // the daemon was restarted, so mountd must attach again
		return nil, nil, wire.Errorf(wire.ErrNotFound, "", "the mount is not attached to this daemon")
	}
	if unmounted {
		s.unmounted(s.scannedFor(r.Peer.PID) != nil)
		s.Log.Info("unmounted; copies of the mount in other namespaces and processes inside the mount are still served", "pid", r.Peer.PID)
	}
	if s.mount.behind() && !s.Scanning() {
		s.Log.Info("changes that bypassed the mount may have been missed, so all files are checked")
		s.baseline.request(true)
	}
	s.Ingest.Poke()
	return s.heartbeatAnswer(), nil, nil
}

func (s *Survey) detach(_ context.Context, r *wire.Request, q wire.Detach) (any, []byte, error) {
	q.PID = cmp.Or(q.PID, r.Peer.PID)
	// A mountd that ends while there is no daemon starts a daemon to report its end.
	scanned := s.scannedFor(q.PID) != nil
	if ours := s.mount.end(q.PID); ours || scanned && !s.Mounted() {
		s.unmounted(scanned)
		s.Log.Info("mount detached", "pid", q.PID)
		s.Ingest.Poke()
	}
	return wire.Empty{}, nil, nil
}

// unmounted records that changes are not reported from now on. scanned says that a scan has
// completed under this mount.
func (s *Survey) unmounted(scanned bool) {
	if scanned || !s.baseline.complete().IsZero() {
		s.noteComplete(time.Now().Add(-time.Duration(ingest.ClockTick)), true)
	}
	s.keep(keepScanned, "") // the process may mount again, but sees no changes until then
	s.Source.Unmounted()
}

func (s *Survey) heartbeatAnswer() wire.HeartbeatAnswer {
	ok, reason := s.Ingest.Health()
	return wire.HeartbeatAnswer{Healthy: ok, Reason: reason, Ingested: s.Ingest.LastSeq(), BaselineStart: s.baseline.complete(), Sends: s.Sends()}
}

// actorKey is the context key of the author of the changes that a check of the files finds.
type actorKey struct{}

// WithActor sets the author of the changes that a check with this context finds.
func WithActor(ctx context.Context, a store.Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, a)
}

func actorIn(ctx context.Context) store.Actor {
	if a, ok := ctx.Value(actorKey{}).(store.Actor); ok {
		return a
	}
	return attribution.Outsider
}

// planKey is the context key of the plan that made the changes that a check of the files finds.
type planKey struct{}

// WithPlan sets the plan that made the changes that a check with this context finds, and the process
// that carried the plan out.
func WithPlan(ctx context.Context, id string, by store.Actor) context.Context {
	return context.WithValue(WithActor(ctx, by), planKey{}, id)
}

func planIn(ctx context.Context) string {
	id, _ := ctx.Value(planKey{}).(string)
	return id
}
