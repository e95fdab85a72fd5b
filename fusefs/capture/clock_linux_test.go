package capture

import (
	"testing"
	"time"
)

func TestClockSetBack(t *testing.T) {
	var k clock
	for i, c := range []struct {
		wall, steady time.Duration
		want         bool
	}{
		{0, 0, false},
		{time.Second, time.Second, false},
		{time.Hour, 2 * time.Second, false}, // set forward, or the machine slept
		{time.Hour + time.Second, 3 * time.Second, false},
		{time.Hour + 1800*time.Millisecond, 4 * time.Second, false}, // adjusted slowly
		{time.Hour + 2400*time.Millisecond, 5 * time.Second, true},  // in small steps, but too far in total
		{time.Hour + 3400*time.Millisecond, 6 * time.Second, false},
		{-time.Hour, 7 * time.Second, true},
		{-time.Hour + time.Second, 8 * time.Second, false},
	} {
		if got := k.setBack(c.wall, c.steady); got != c.want {
			t.Errorf("step %d: %v", i, got)
		}
	}
}

// A file that is made after the clock was set back looks older than the last scan, which cannot
// have seen it. Therefore the scan is not trusted any more, although the daemon continues to report
// it.
func TestSetBackClockEndsTrustInScans(t *testing.T) {
	h := newHarness(t, nil)
	scan := time.Now().Add(time.Hour)
	h.c.BaselineDone(scan)
	seen := h.file("seen", "1")
	seen.unlink()
	h.c.scans.distrust()
	h.c.BaselineDone(scan)
	unseen := h.file("unseen", "2")
	unseen.unlink()
	h.c.BaselineDone(scan.Add(time.Hour))
	later := h.file("later", "3")
	later.unlink()
	log := h.log()
	wantVersions(t, log, "seen")
	wantVersions(t, log, "unseen", "2")
	wantVersions(t, log, "later")
}
