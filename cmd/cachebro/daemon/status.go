package daemon

import (
	"context"
	"os"
	"runtime/metrics"
	"time"

	"cachebro/store/onwire"
	"cachebro/store/wire"
)

func (d *Daemon) status(ctx context.Context, _ wire.Empty) (wire.Status, []byte, error) {
	mounted, attach, beat := d.survey.MountState()
	st := wire.Status{
		Root: d.o.Root, State: d.state, Version: d.o.Version, DaemonPID: os.Getpid(),
		Mounted: mounted, Baseline: d.survey.Progress(), Sessions: d.sessions.Live(), Unheard: d.sessions.Unreported(),
	}
	if mounted {
		st.Mountpoint = attach.Mountpoint
		st.MountdPID = attach.PID
		st.Outside = attach.Outside
		st.Watched = attach.Watched
		st.Capture = beat.Capture
	}
	stats := d.store.Stats()
	ok, reason := d.ingest.Health()
	if !ok {
		d.ingest.Poke()
	}
	st.Store = wire.StoreState{Healthy: ok, Reason: reason, Versions: stats.Versions, Files: stats.Files, HeapBytes: heapBytes()}
	st.Store.Memory = killedForMemory(d.store, time.Now())
	if why := d.store.Stopped(); why != "" {
		st.Store.Healthy, st.Store.Reason = false, why
	}
	if used, free, err := d.store.DiskUsage(); err == nil {
		st.Store.DiskBytes, st.Store.FreeBytes = used, free
	}
	st.Store.Lag = d.ingest.Lag()
	if got := d.ingest.LastSeq(); mounted && st.Store.Lag > 0 && beat.Head > got {
		st.Store.Lag = beat.Head - got // exact, as of mountd's last heartbeat
	}
	gaps, count, err := d.store.Notes.Gaps(20)
	if err != nil {
		return st, nil, err
	}
	for _, g := range gaps {
		st.Gaps = append(st.Gaps, onwire.Gap(g))
	}
	st.Index, st.Results = d.find.Status(), d.answers.Status()
	if r := d.sending.State(); r.URL != "" {
		st.Remote = &r
	}
	st.Git = d.git.Tidy(ctx)
	st.GapCount = count + beat.Capture.Gaps
	return st, nil, nil
}

// heapBytes returns the size of the heap's objects. Reading it stops no goroutine.
func heapBytes() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64())
}

func (d *Daemon) shutdown(_ context.Context, r *wire.Request) (any, []byte, error) {
	d.log.Info("shutdown requested", "client", r.Hello.Client, "pid", r.Peer.PID)
	r.Written = func(error) { d.stop() }
	return wire.Empty{}, nil, nil
}
