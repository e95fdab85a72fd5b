package daemon

import (
	"context"
	"errors"
	"time"

	"cachebro/store/wire"
)

// The daemon is a guest: with nothing to do it ends, mounted or not, and whoever
// needs it starts it again: mountd at the first record, a client with its first
// question. What follows is what its going and coming take.

// awake says what keeps the daemon from ending; "": nothing does. A connection on
// which nothing is asked is no reason: its client connects again by itself. Nor is a
// mount: mountd's heartbeats are requests, and come only while something happens.
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

// asked reports whether somebody waits for answers of ours at the moment: the index
// leaves a processor to who does.
func (d *Daemon) asked() bool { return d.server.Idle() < time.Second }

// leave ends an idle daemon, after what retention would have done in the next
// minutes. It reports whether the end has begun.
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

// summon has mountd attach, if there is one: what a client asks first is answered
// with what is known of the mount. A mountd that started us attaches anyway.
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

// meet lets questions be answered.
func (d *Daemon) meet() { d.meeting.Do(func() { close(d.met) }) }

// unmet are the methods that are answered before it is known what is mounted.
var unmet = map[string]bool{wire.MAttach: true, wire.MHeartbeat: true, wire.MDetach: true, wire.MShutdown: true}
