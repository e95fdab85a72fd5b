package content_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"cachebro/scripts/testkit/storetest"
	"cachebro/store/content"
)

// editedText changes one line of a text.
func editedText(rnd *rand.Rand, text []byte, n int) []byte {
	out := bytes.Clone(text)
	at := rnd.IntN(len(out)/49) * 49
	copy(out[at:], fmt.Sprintf("%048d", n))
	return out
}

// repacked packs loose contents, as Collect does when a repack is due.
func repacked(t *testing.T, s *Store) content.Report {
	t.Helper()
	s.Contents().Lock()
	defer s.Contents().Unlock()
	var r content.Report
	if err := s.Contents().Repack(context.Background(), false, &r); err != nil {
		t.Fatal(err)
	}
	if n := s.Stats().Loose; n != 0 {
		t.Fatalf("%d bytes are loose after a repack", n)
	}
	return r
}

// Contents survive a repack, further repacks with later contents, a restart of the store, and
// pruning. The counters are right at every step.
func TestRepack(t *testing.T) {
	dir := t.TempDir()
	now := storetest.Now()
	o := testOptions()
	o.KeepAge, o.Now = time.Hour, func() time.Time { return now }
	s := open(t, dir, o)
	rnd := rand.New(rand.NewPCG(7, 7))
	texts := map[Hash][]byte{}
	now0 := map[Path][]byte{}
	write := func(p Path, text []byte) {
		now0[p] = text
		v := apply(t, s, file(OpWrite, p, string(text)))[0]
		texts[v.Blob] = text
	}
	for f := range 12 {
		write(Path(fmt.Sprintf("dir%d/f%d.go", f%3, f)), noise(rnd, 20+10*f))
	}
	large := noise(rnd, 2700) // too large to be put into a frame as a delta
	write("large", large)
	write("empty", []byte{})
	all := func() {
		t.Helper()
		for h, want := range texts {
			if got, err := s.Content(h); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("content %x: %v, %d bytes instead of %d", h[:4], err, len(got), len(want))
			}
		}
		checked(t, s)
	}
	packed := 0
	for round := range 3 {
		for n := range 48 {
			p := Path(fmt.Sprintf("dir%d/f%d.go", n%12%3, n%12))
			write(p, editedText(rnd, now0[p], 100*round+n))
			if n%20 == 0 {
				write("large", editedText(rnd, now0["large"], 100*round+n))
			}
		}
		before := s.Stats().BlobBytes
		packed += repacked(t, s).Packed
		if after := s.Stats().BlobBytes; round == 0 && after > before+before/20 { // random data does not compress
			t.Fatalf("packing made %d bytes of %d", after, before)
		}
		all()
		if round == 1 {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = open(t, dir, o)
		}
	}
	if packed < 140 {
		t.Fatalf("only %d contents were packed", packed)
	}
	if r := repacked(t, s); r.Packed != 0 {
		t.Fatalf("%d contents were packed twice", r.Packed)
	}

	now = now.Add(2 * time.Hour)
	if _, err := s.Prune(context.Background(), 2, ""); err != nil {
		t.Fatal(err)
	}
	for h := range texts {
		if !s.Has(h) {
			delete(texts, h)
		}
	}
	if n := len(texts); n < 20 || n > 40 {
		t.Fatalf("%d contents are left", n)
	}
	all()
	wasted := framesWaste(t, s)
	if wasted > 0.31 {
		t.Fatalf("%.0f%% of the frames are waste", 100*wasted)
	}
}

// framesWaste returns the share of the frames' bytes that is not needed.
func framesWaste(t *testing.T, s *Store) float64 {
	t.Helper()
	w, err := s.Contents().FramesWaste()
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// Purged contents are also removed from the frames of their neighbours.
func TestPurgePacked(t *testing.T) {
	s := fresh(t)
	rnd := rand.New(rand.NewPCG(3, 3))
	for n := range 10 {
		apply(t, s, file(OpWrite, "kept", string(noise(rnd, 50))), file(OpWrite, "secret", string(noise(rnd, 20+n))))
	}
	repacked(t, s)
	p, err := s.Purge(context.Background(), "secret")
	if err != nil || p.Blobs != 10 {
		t.Fatalf("%+v %v", p, err)
	}
	if w := framesWaste(t, s); w != 0 {
		t.Fatalf("%.1f%% of the frames are of purged contents", 100*w)
	}
	checked(t, s)
}

// If a repack is killed before anything refers to its frames, the next repack removes them.
func TestRepackLeftover(t *testing.T) {
	s := fresh(t)
	rnd := rand.New(rand.NewPCG(5, 5))
	apply(t, s, file(OpCreate, "a", string(noise(rnd, 50))), file(OpCreate, "b", string(noise(rnd, 50))))
	if n, err := s.Contents().LeaveFrame(); err != nil || n != 2 {
		t.Fatalf("%d parcels, %v", n, err)
	}
	checked(t, s)
	repacked(t, s)
	ids, err := s.Contents().Frames()
	if err != nil || len(ids) != 1 || ids[0] != 2 {
		t.Fatalf("frames %v, %v", ids, err)
	}
	checked(t, s)
}

// Packing, pruning and reading continue while files are written: newly stored contents are not
// lost, and every content that is read has its hash.
func TestRepackWhileWriting(t *testing.T) {
	o := testOptions()
	o.KeepAge = time.Nanosecond
	s := open(t, t.TempDir(), o)
	rnd := rand.New(rand.NewPCG(9, 9))
	last := map[Path][]byte{}
	var wg sync.WaitGroup
	done := make(chan struct{}) // closed when the writer has finished
	wg.Go(func() {
		for range 10 {
			select {
			case <-done:
				return
			default:
			}
			if _, err := s.Prune(context.Background(), 3, ""); err != nil {
				t.Error(err)
				return
			}
		}
	})
	wg.Go(func() {
		for seq := uint64(1); ; seq++ {
			select {
			case <-done:
				return
			default:
			}
			v, err := s.Version(1 + seq%max(s.Seq(), 1))
			if err != nil || v.Blob == (Hash{}) {
				continue
			}
			if _, err := s.Content(v.Blob); err != nil && !errors.Is(err, content.ErrPruned) {
				t.Errorf("version %d: %v", v.Seq, err)
				return
			}
		}
	})
	for n := range 100 {
		p := Path(fmt.Sprintf("f%d.go", n%7))
		if last[p] == nil {
			last[p] = noise(rnd, 60+20*n)
		}
		last[p] = editedText(rnd, last[p], n)
		apply(t, s, file(OpWrite, p, string(last[p])))
	}
	close(done)
	wg.Wait()
	s.Contents().Forget()
	for p, want := range last {
		if got := contentOf(t, s, p); got != string(want) {
			t.Fatalf("%q is not what was written last", p)
		}
	}
	checked(t, s)
}

// A pack file whose frame can no longer be read still holds contents, so it does not count as unused.
func TestPackFileOfADamagedFrameStays(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	apply(t, s, checkout(40)...)
	repacked(t, s)
	before := s.Contents().PackFiles()
	if err := s.Contents().DamageNewestFrame(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, Options{})
	if after := s.Contents().PackFiles(); len(before) != 1 || len(after) != 1 {
		t.Errorf("%d pack files, then %d", len(before), len(after))
	}
	if c, err := s.Fsck(t.Context(), true); err != nil || c.OK() {
		t.Errorf("fsck finds nothing: %v", err)
	}
	if after := s.Contents().PackFiles(); len(after) != 1 {
		t.Errorf("%d pack files after fsck", len(after))
	}
}
