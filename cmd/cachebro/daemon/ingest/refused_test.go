package ingest

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	"cachebro/store"
)

// TestMendTakesOnlyWhatIsRefused: when the store refused a batch because of one content, the
// contents of the other 255 changes used to be lost too. They were lost even if a content was not
// the cause.
func TestMendTakesOnlyWhatIsRefused(t *testing.T) {
	s, err := store.Open(t.TempDir(), store.Options{Ballast: -1, MaxBlob: 100})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	g := &Ingester{store: s, log: slog.New(slog.DiscardHandler)}
	change := func(p store.Path, size int) store.Change {
		return store.Change{Op: store.OpWrite, Path: p, Time: 1, Stat: store.Stat{Mode: 0o100644, Size: int64(size)}, HasContent: true, Content: bytes.Repeat([]byte("x"), size)}
	}
	cs := []store.Change{change("a", 10), change("b", 1000), change("c", 20), change("d", 2000), change("e", 30)}
	for n := range 2 {
		if !g.dropBadContent(t.Context(), cs) {
			t.Fatalf("turn %d: not mended", n)
		}
	}
	if g.dropBadContent(t.Context(), cs) {
		t.Error("mended what is in order")
	}
	vs, err := s.Apply(t.Context(), cs, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range vs {
		if kept := v.Blob != (store.Hash{}); kept != (v.Path != "b" && v.Path != "d") || kept != (v.NoContent == "") {
			t.Errorf("%q: kept %v, %q", v.Path, kept, v.NoContent)
		}
	}
	cs = []store.Change{change("f", 10), {Op: 99, Path: "g", HasContent: true}, change("h", 20)}
	if g.dropBadContent(t.Context(), cs) || !cs[0].HasContent || !cs[1].HasContent || !cs[2].HasContent {
		t.Errorf("contents are no cause here: %+v", cs)
	}
}

// The store refused changes because the disk was full. The pauses between the attempts grow to a
// minute, and status went on to warn for as long after the disk had room again.
func TestRequestEndsThePauseAfterARefusal(t *testing.T) {
	g := &Ingester{}
	ended := make(chan bool)
	go func() { ended <- g.beforeRetry(t.Context(), time.Hour) }()
	for {
		g.Poke()
		select {
		case again := <-ended:
			if !again {
				t.Error("it gives up")
			}
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}
