package daemon

import "time"

// A storm is thousands of files written or removed at once: a checkout, an
// unpacked archive, rm -rf. The index then waits until it is over: whoever
// makes it needs the processors, and what is removed again at once need not be
// indexed at all. Exact queries lose nothing by it, they read what is newer
// than the index themselves.
const (
	stormWindow = 250 * time.Millisecond // in which so many
	stormItems  = 128                    // records make a storm
	stormQuiet  = 200 * time.Millisecond // ends it
	stormMost   = 10 * time.Second       // for which the index waits at most
	stormPause  = 3 * time.Second        // and then gets at least
)

// storm belongs to the goroutine that ingests.
type storm struct {
	hold    func() (release func()) // the index's
	release func()                  // nil: not held
	window  time.Time               // begin of the window
	items   int                     // in it
	since   time.Time               // when it was held last
	after   time.Time               // until then it is not held again
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
	case s.release == nil && s.items >= stormItems && now.After(s.after):
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
