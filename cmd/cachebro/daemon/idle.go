package daemon

import (
	"context"
	"errors"
	"time"

	"cachebro/store/wire"
)

// The daemon ends when it has nothing to do, even if something is mounted. The next record of
// mountd, or the next request of a client, starts it again. This file decides when the daemon ends,
// and makes mountd attach to a new daemon.

// awake returns the reason why the daemon must not end now, or "" if there is none. Idle
// connections do not count, because their clients can connect again. A mount does not count,
// because mountd starts the daemon again when something happens.
func (d *Daemon) awake() string {
	if d.server.Idle() <= d.o.IdleExit {
		return "a recent request from a client or from mountd"
	}
	if d.survey.Scanning() {
		return "a scan"
	}
	if ok, _ := d.ingest.Health(); d.ingest.Busy() && (ok || d.survey.Mounted()) {
		return "records that are not in the log yet"
	}
	if d.attribution.CarriesOutPlan() {
		return "a plan that is being carried out"
	}
	if d.index.Working() {
		return "the index"
	}
	if d.outputs.Held() {
		return "a saved output that an agent saw only in part"
	}
	if d.sending.Busy() {
		return "history that has not been sent yet"
	}
	return ""
}

// recentlyAsked reports whether a client sent a request within the last second. If so, the index
// leaves a processor free.
func (d *Daemon) recentlyAsked() bool { return d.server.Idle() < time.Second }

// endIdle ends an idle daemon, after doing the retention work that would have been due in the
// next minutes. It reports whether it has begun to end.
func (d *Daemon) endIdle(ctx context.Context) bool {
	if d.o.IdleExit <= 0 || d.awake() != "" {
		return false
	}
	d.tidy.CollectNow(ctx)
	if d.awake() != "" {
		return false
	}
	d.log.Info("idle", "since", d.server.Idle().Round(time.Second))
	d.server.Retire()
	d.stop()
	return true
}

// attachWait bounds how long requests wait for mountd to attach.
const attachWait = 2 * time.Second

// askToAttach asks mountd to attach if the project is mounted, so that even the first answers take
// the mount into account. A mountd that started this daemon attaches without being asked.
func (d *Daemon) askToAttach(ctx context.Context) {
	defer d.releaseRequests()
	ctx, cancel := context.WithTimeout(ctx, attachWait)
	defer cancel()
	if err := wire.AttachMountd(ctx, d.o.Paths, d.o.Root); err != nil {
		if !errors.Is(err, wire.ErrNoDaemon) {
			d.log.Warn("mountd does not answer", "err", err)
		}
		return
	}
	select {
	case <-d.mountKnown:
	case <-ctx.Done():
		d.log.Warn("mountd has not attached")
	}
}

// releaseRequests releases the requests that wait until it is known whether the project is mounted.
func (d *Daemon) releaseRequests() { d.mountKnownOnce.Do(func() { close(d.mountKnown) }) }

// withoutMount lists the methods that are answered before it is known whether the project is
// mounted.
var withoutMount = map[string]bool{wire.MAttach: true, wire.MHeartbeat: true, wire.MDetach: true, wire.MShutdown: true}
