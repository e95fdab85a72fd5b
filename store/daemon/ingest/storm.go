package ingest

import (
	"context"
	"time"

	"cachebro/fusefs/capture/spool"
	"cachebro/store/daemon/waits"
)

// A storm is thousands of files written or removed at once: a checkout, an
// unpacked archive, rm -rf. The index then waits until it is over: whoever
// makes it needs the processors, and what is removed again at once need not be
// indexed at all. Exact queries lose nothing by it, they read what is newer
// than the index themselves.
const (
	stormWindow = 250 * time.Millisecond // in which so many
	StormItems  = 128                    // records make a storm
	stormQuiet  = 200 * time.Millisecond // ends it
	stormMost   = 10 * time.Second       // for which the index waits at most
	stormPause  = 3 * time.Second        // and then gets at least

	// Ingestion itself works in turns in a storm: whoever makes it is served by
	// the mount on the same processors, and many records at once are cheaper than
	// a few again and again. What is not ingested lies in the spool, which is as
	// safe; whoever asks for it is not kept waiting.
	stormRest  = time.Second           // between two turns at most
	stormStill = 25 * time.Millisecond // without a record ends the rest
	stormSpool = 64 << 20              // bytes in the spool end it too
)

// storm belongs to the goroutine that ingests.
type storm struct {
	hold    func() (release func()) // the index's
	release func()                  // nil: not held
	window  time.Time               // begin of the window
	items   int                     // in it
	since   time.Time               // when it was held last
	after   time.Time               // until then it is not held again
	turn    spool.Position          // up to which ingestion works before it rests again
}

// note counts ingested records.
func (s *storm) note(items int, now time.Time) {
	if now.Sub(s.window) > stormWindow {
		s.window, s.items = now, 0
	}
	s.items += items
	switch {
	case s.release != nil && now.Sub(s.since) > stormMost:
		s.over()
		s.after = now.Add(stormPause)
	case s.release == nil && s.items >= StormItems && now.After(s.after):
		s.release, s.since = s.hold(), now
	}
}

// over lets the index go on, when nothing came for a while.
func (s *storm) over() {
	if s.release != nil {
		s.release()
		s.release = nil
	}
}

// rest waits for the end of a storm, or of the rest, unless somebody waits for
// what is in the spool or has just done so.
func (g *Ingester) rest(ctx context.Context) {
	if asked := g.asked.Load(); g.storm.release == nil || g.pos.Load().Before(g.storm.turn) || asked != nil && time.Since(*asked) < stormRest {
		return
	}
	rest, cancel := context.WithTimeout(ctx, stormRest)
	defer cancel()
	g.cancelWait.Store(&cancel)
	defer g.cancelWait.Store(nil)
	head, err := g.reader.Head()
	for err == nil && g.waiters.Load() == 0 && waits.Sleep(rest, stormStill) && g.reader.Size() < stormSpool {
		before := head
		if head, err = g.reader.Head(); head == before {
			break
		}
	}
	g.storm.turn, _ = g.reader.Head()
}
