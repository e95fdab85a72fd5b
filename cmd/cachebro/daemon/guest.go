package daemon

import (
	"context"
	"errors"
	"time"

	"cachebro/store/wire"
)

// The daemon ends when it has nothing to do, mounted or not. Whoever needs it starts it
// again: mountd with the first record, a client with its first request. This file decides
// when the daemon ends, and lets a new one learn of the mount.

// awake says what keeps the daemon from ending, "" if nothing does. A connection without
// requests does not: its client connects again by itself. Nor does a mount: mountd's
// heartbeats are requests, and come only while something happens.
func (d *Daemon) awake() string {
	if d.server.Idle() <= d.o.IdleExit {
		return "somebody asked a moment ago, or was told of by mountd"
	}
	if d.survey.Scanning() {
		return "a scan"
	}
	if ok, _ := d.ingest.Health(); d.ingest.Busy() && (ok || d.survey.Mounted()) {
		return "records that are not in the log"
	}
	if d.attribution.Carrying() {
		return "a plan that is being carried out"
	}
	if d.index.Working() {
		return "the index"
	}
	if d.printed.Held() {
		return "an output that a model was shown in part"
	}
	if d.sending.Busy() {
		return "what is not sent yet"
	}
	return ""
}

// asked reports whether somebody waits for an answer at the moment. If so, the index leaves
// a processor free.
func (d *Daemon) asked() bool { return d.server.Idle() < time.Second }

// leave ends an idle daemon, after doing what retention would have done in the next minutes.
// It reports whether the end has begun.
func (d *Daemon) leave(ctx context.Context) bool {
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

// summonWait bounds how long questions wait for mountd to attach.
const summonWait = 2 * time.Second

// summon asks mountd, if there is one, to attach, so that even the first requests are
// answered with what is known of the mount. A mountd that started us attaches anyway.
func (d *Daemon) summon(ctx context.Context) {
	defer d.meet()
	ctx, cancel := context.WithTimeout(ctx, summonWait)
	defer cancel()
	if err := wire.Summon(ctx, d.o.Paths, d.o.Root); err != nil {
		if !errors.Is(err, wire.ErrNoDaemon) {
			d.log.Warn("mountd does not answer", "err", err)
		}
		return
	}
	select {
	case <-d.met:
	case <-ctx.Done():
		d.log.Warn("mountd does not attach")
	}
}

// meet lets the requests be answered that wait for what is mounted.
func (d *Daemon) meet() { d.meeting.Do(func() { close(d.met) }) }

// unmet lists the methods that are answered before it is known what is mounted.
var unmet = map[string]bool{wire.MAttach: true, wire.MHeartbeat: true, wire.MDetach: true, wire.MShutdown: true}
