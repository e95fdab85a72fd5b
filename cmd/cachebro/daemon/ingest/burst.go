package ingest

import (
	"context"
	"time"

	"cachebro/cmd/cachebro/daemon/waits"
	"cachebro/store/leaf/spool"
)

// A burst is thousands of files written or removed at once: a checkout, an
// unpacked archive, rm -rf. The index then waits until it is over: whoever
// makes it needs the processors, and what is removed again at once need not be
// indexed at all. Exact queries lose nothing by it, they read what is newer
// than the index themselves.
const (
	burstWindow = 250 * time.Millisecond // in which so many
	BurstItems  = 128                    // records make a burst
	burstQuiet  = 200 * time.Millisecond // ends it
	burstMost   = 10 * time.Second       // for which the index waits at most
	burstGap    = 3 * time.Second        // and then gets at least

	// Ingestion itself works in turns in a burst: whoever makes it is served by
	// the mount on the same processors, and many records at once are cheaper than
	// a few again and again. What is not ingested lies in the spool, which is as
	// safe; whoever asks for it is not kept waiting.
	burstPause = time.Second           // between two turns at most
	burstStill = 25 * time.Millisecond // without a record ends the pause
	burstSpool = 64 << 20              // bytes in the spool end it too

	// Of git's own files nobody looks at each record at once, and the git that makes
	// them runs on the same processors.
	gitPause = 250 * time.Millisecond
)

// burst belongs to the goroutine that ingests.
type burst struct {
	hold    func() (release func()) // the index's
	release func()                  // nil: not held
	window  time.Time               // begin of the window
	items   int                     // in it
	since   time.Time               // when it was held last
	after   time.Time               // until then it is not held again
	turn    spool.Position          // up to which ingestion works before it pauses again
}

// note counts ingested records.
func (s *burst) note(items int, now time.Time) {
	if now.Sub(s.window) > burstWindow {
		s.window, s.items = now, 0
	}
	s.items += items
	switch {
	case s.release != nil && now.Sub(s.since) > burstMost:
		s.over()
		s.after = now.Add(burstGap)
	case s.release == nil && s.items >= BurstItems && now.After(s.after):
		s.release, s.since = s.hold(), now
	}
}

// over lets the index go on, when nothing came for a while.
func (s *burst) over() {
	if s.release != nil {
		s.release()
		s.release = nil
	}
}

// lull lets more come after a batch that is of git's own files only, and of who changed
// them.
func (g *Ingester) lull(ctx context.Context, b batch) {
	git := false
	for _, j := range b.items {
		switch j.Record.Kind {
		case spool.KindGit:
			git = true
		case spool.KindProcess:
		default:
			return
		}
	}
	if !git {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, gitPause)
	defer cancel()
	g.cancelWait.Store(&cancel)
	defer g.cancelWait.Store(nil)
	if g.waiters.Load() == 0 {
		<-ctx.Done()
	}
}

// pause waits for the end of a burst, or of the pause, unless somebody waits for
// what is in the spool or has just done so.
func (g *Ingester) pause(ctx context.Context) {
	if asked := g.asked.Load(); g.burst.release == nil || g.pos.Load().Before(g.burst.turn) || asked != nil && time.Since(*asked) < burstPause {
		return
	}
	pause, cancel := context.WithTimeout(ctx, burstPause)
	defer cancel()
	g.cancelWait.Store(&cancel)
	defer g.cancelWait.Store(nil)
	head, err := g.reader.Head()
	for err == nil && g.waiters.Load() == 0 && waits.Sleep(pause, burstStill) && g.reader.Size() < burstSpool {
		before := head
		head, err = g.reader.Head()
		if head == before {
			break
		}
	}
	g.burst.turn, _ = g.reader.Head()
}
