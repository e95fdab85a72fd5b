package spool

import (
	"strings"
	"testing"
)

// The spool of an idle project is small. The spool of a busy project does not start a segment every
// second.
func TestSegmentsByNeed(t *testing.T) {
	w := openTest(t, t.TempDir(), Options{})
	if w.segLimit > 1<<20 {
		t.Errorf("the first segment has %d bytes", w.segLimit)
	}
	long := strings.Repeat("d/", 2000) + "f"
	rolls, last := 0, w.segLimit
	for range 2000 {
		if _, err := w.Append(&Record{Kind: KindVersion, Path: long}); err != nil {
			t.Fatal(err)
		}
		if w.segLimit != last {
			rolls, last = rolls+1, w.segLimit
		}
	}
	if rolls == 0 || last < 2<<20 {
		t.Errorf("after %d larger segments one has %d bytes", rolls, last)
	}
	if w.segLimit > w.opt.SegmentSize {
		t.Errorf("a segment has %d bytes", w.segLimit)
	}
}
