package ingest

import (
	"context"
	"time"

	"cachebro/store/leaf/loop"
	"cachebro/store/leaf/spool"
)

// A burst is a time in which thousands of files are written or removed: a checkout, an unpacked
// archive, rm -rf. The index waits until the burst is over, because the program that causes it
// needs the processors, and many of the files are soon removed again. Exact queries miss nothing,
// because they read the files that are newer than the index.
const (
	// A burst is BurstItems records within burstWindow. It ends after burstQuiet without a
	// record.
	burstWindow = 250 * time.Millisecond
	BurstItems  = 128
	burstQuiet  = 200 * time.Millisecond
	// burstMost is the longest time that the index waits in a burst. burstGap is how long the index
	// then works before it may wait again.
	burstMost = 10 * time.Second
	burstGap  = 3 * time.Second

	// Ingestion pauses during a burst as well, because the mount serves the program on the same
	// processors, and large batches are cheaper. Meanwhile the records are safe in the spool. A
	// pause lasts burstPause. It ends earlier if a request needs the records, after burstStill
	// without a record, or when the spool holds burstSpool bytes.
	burstPause = time.Second
	burstStill = 25 * time.Millisecond
	burstSpool = 64 << 20

	// gitPause is how long ingestion pauses after records of git's own files, which are not
	// needed immediately.
	gitPause = 250 * time.Millisecond
)

// burst detects bursts and makes the index wait during them. Only the goroutine that ingests uses
// it.
type burst struct {
	hold      func() (release func()) // makes the index wait
	release   func()                  // lets the index continue; nil if it does not wait
	window    time.Time               // when the present window began
	items     int                     // records in that window
	heldSince time.Time               // when the index last began to wait
	notBefore time.Time               // the index does not wait again before this time
	resumeAt  spool.Position          // ingestion does not pause again before this position
}

// note counts ingested records, and makes the index wait if they are a burst.
func (s *burst) note(items int, now time.Time) {
	if now.Sub(s.window) > burstWindow {
		s.window, s.items = now, 0
	}
	s.items += items
	switch {
	case s.release != nil && now.Sub(s.heldSince) > burstMost:
		s.end()
		s.notBefore = now.Add(burstGap)
	case s.release == nil && s.items >= BurstItems && now.After(s.notBefore):
		s.release, s.heldSince = s.hold(), now
	}
}

// end ends the burst and lets the index continue.
func (s *burst) end() {
	if s.release != nil {
		s.release()
		s.release = nil
	}
}

// pauseAfterGit pauses after a batch of changes to git's own files, so that the next batch is
// larger. The batch may also contain records of processes.
func (g *Ingester) pauseAfterGit(ctx context.Context, b batch) {
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

// pauseInBurst waits until the burst or burstPause is over. It does not wait if a caller is waiting
// for the spool to be ingested, or began to wait for that less than burstPause ago.
func (g *Ingester) pauseInBurst(ctx context.Context) {
	if asked := g.lastWaiter.Load(); g.burst.release == nil || g.pos.Load().Before(g.burst.resumeAt) || asked != nil && time.Since(*asked) < burstPause {
		return
	}
	pause, cancel := context.WithTimeout(ctx, burstPause)
	defer cancel()
	g.cancelWait.Store(&cancel)
	defer g.cancelWait.Store(nil)
	head, err := g.reader.Head()
	for err == nil && g.waiters.Load() == 0 && loop.Pause(pause, burstStill) && g.reader.Size() < burstSpool {
		before := head
		head, err = g.reader.Head()
		if head == before {
			break
		}
	}
	g.burst.resumeAt, _ = g.reader.Head()
}
