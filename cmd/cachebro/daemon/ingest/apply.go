package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cachebro/store"
	"cachebro/store/leaf/loop"
	"cachebro/store/onwire"
	"cachebro/store/wire"
)

// apply appends changes together with the checkpoint. If the store refuses them, apply retries, and
// the records wait in the spool. It returns false if ctx ended.
func (g *Ingester) apply(ctx context.Context, changes []store.Change, checkpoint []byte) ([]store.Version, bool) {
	pause := RetryFirst
	for tries := 0; ; tries++ {
		g.applyMu.Lock()
		vs, err := g.store.Apply(ctx, changes, checkpoint)
		if err == nil && checkpoint != nil {
			g.checkpoint = checkpoint
		}
		g.applyMu.Unlock()
		var base *store.BaseError
		switch {
		case err == nil:
			g.healthy()
			g.o.Changed()
			return vs, true
		case ctx.Err() != nil, errors.Is(err, store.ErrClosed):
			return nil, false
		case errors.As(err, &base) && base.Index < len(changes):
			g.rebase(ctx, &changes[base.Index])
			tries--
			continue
		case errors.Is(err, store.ErrNoSpace):
			g.Unhealthy(err)
			tries = 0
		default:
			g.Unhealthy(err)
			if tries >= 5 && g.dropBadContent(ctx, changes) {
				continue
			}
		}
		if !g.beforeRetry(ctx, pause) {
			return nil, false
		}
		pause = min(2*pause, RetryLast)
		if pause == RetryLast {
			g.maybeRelease(ctx, true)
		}
	}
}

// beforeRetry waits for pause. After RetryFirst, a heartbeat or request that came meanwhile ends the
// wait, because the disk may have room again. It returns false if ctx ended.
func (g *Ingester) beforeRetry(ctx context.Context, pause time.Duration) bool {
	g.kicked.Store(false)
	if !loop.Pause(ctx, RetryFirst) {
		return false
	}
	wait, cancel := context.WithTimeout(ctx, pause-RetryFirst)
	defer cancel()
	g.cancelWait.Store(&cancel)
	defer g.cancelWait.Store(nil)
	if !g.kicked.Load() { // Poke was not called since
		<-wait.Done()
	}
	return ctx.Err() == nil
}

const (
	// PlanWait is how long a plan waits until the spool is ingested, and PlanStill how long it
	// waits without any progress.
	PlanWait  = time.Minute
	PlanStill = 20 * time.Second
)

// CaughtUp waits until everything that was in the spool at the call is ingested, because a plan
// made from half of the events would undo only that half. It returns false if the store accepts no
// changes or ingestion makes no progress. The plan must then use what the store has.
func (g *Ingester) CaughtUp(ctx context.Context, within, still time.Duration) (bool, error) {
	g.settle()
	head, err := g.reader.Head()
	if err != nil {
		return false, nil
	}
	began := time.Now()
	at, since := *g.pos.Load(), began
	for at.Before(head) {
		switch {
		case ctx.Err() != nil:
			return false, ctx.Err()
		case !g.health.Load().ok || time.Since(since) > still:
			return false, nil
		case time.Since(began) > within:
			return false, wire.Errorf(wire.ErrTimeout, "cachebro status; then try again", "the newest changes have not been recorded yet")
		}
		g.WaitHead(ctx, min(within, still, QueryWait/10))
		if now := *g.pos.Load(); now != at {
			at, since = now, time.Now()
		}
	}
	return true, nil
}

// Behind returns a warning that the history lacks the newest changes, with the reason if it is
// known.
func (g *Ingester) Behind() string {
	text := "the history is behind, so the newest changes are missing here"
	if ok, reason := g.Health(); !ok {
		text += " (the store accepts no changes: " + reason + ")"
	}
	return text
}

// rebase replaces an appended tail by the whole content, because the store may lack the beginning
// of the file, for example after a restart. It reads the content from the file. If the file has
// changed since, the content counts as lost.
func (g *Ingester) rebase(ctx context.Context, c *store.Change) {
	dropContent(c)
	if !g.fromSource(ctx, c) {
		g.lost(c, "only the appended end was recorded, and the beginning of the file is no longer available")
	}
}

// dropBadContent removes the content from the one change that makes the store refuse a batch,
// because one bad content must not stop the history. It returns false if the refusal has another
// cause.
func (g *Ingester) dropBadContent(ctx context.Context, changes []store.Change) bool {
	i, err := g.store.Check(ctx, changes)
	if err == nil || i >= len(changes) || !changes[i].HasContent {
		return false
	}
	c := changes[i]
	dropContent(&changes[i])
	if next, err := g.store.Check(ctx, changes); err != nil && next <= i {
		changes[i] = c
		return false
	}
	g.lost(&changes[i], fmt.Sprintf("the store refuses the content: %v", err))
	return true
}

func dropContent(c *store.Change) {
	c.HasContent, c.Content = false, nil
	c.TailFrom = 0
}

func (g *Ingester) lost(c *store.Change, reason string) {
	c.NoContent = "gap: " + reason
	g.Gap(store.Gap{Path: c.Path, Time: c.Time, Reason: reason})
}

// Gap stores a gap. If it fails, it logs the gap.
func (g *Ingester) Gap(gap store.Gap) {
	if err := g.store.Notes.NoteGap(gap); err != nil {
		g.log.Error("gap", "path", onwire.Display(gap.Path), "reason", gap.Reason, "err", err)
	}
}

func (g *Ingester) healthy() {
	if h := g.health.Load(); !h.ok {
		g.log.Info("the store accepts versions again", "stopped", time.Since(h.since).Round(time.Second))
		g.health.Store(&health{ok: true, since: time.Now()})
	}
}

// Unhealthy records that the store accepts no versions, with the reason.
func (g *Ingester) Unhealthy(err error) {
	reason := err.Error()
	if h := g.health.Load(); h.ok || h.reason != reason {
		since := time.Now()
		if !h.ok {
			since = h.since
		}
		g.log.Error("the store accepts no versions, so they wait in the spool", "err", err)
		g.health.Store(&health{reason: reason, since: since})
	}
}
