package store

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	badger "github.com/dgraph-io/badger/v4"
)

// Whatever an index says, taking it apart ends, and what comes out lies within
// the file.
func TestPackIndex(t *testing.T) {
	s := fresh(t)
	apply(t, s, checkout(40)...)
	repacked(t, s)
	var good []byte
	for name := range s.packLinks() {
		b, err := os.ReadFile(s.packPath(name))
		if err != nil {
			t.Fatal(err)
		}
		at := int(binary.BigEndian.Uint64(b[len(b)-packTrailer:]))
		good = b[at : len(b)-packTrailer]
		if fs, err := parseIndex(good, int64(at)); err != nil || len(fs) != 1 || len(fs[0].tags) != 41 {
			t.Fatalf("%d frames, %v", len(fs), err)
		}
	}
	rnd := rand.New(rand.NewPCG(4, 4))
	for range 5000 {
		b := slices.Clone(good[:1+rnd.IntN(len(good))])
		for range 1 + rnd.IntN(4) {
			b[rnd.IntN(len(b))] = byte(rnd.Uint32())
		}
		fs, err := parseIndex(b, 1<<20)
		if err != nil {
			continue
		}
		for _, f := range fs {
			sum := int64(0)
			for _, n := range f.sizes {
				sum += n
			}
			if len(f.tags) != len(f.sizes) || sum != f.raw || f.at+f.n > 1<<20 {
				t.Fatalf("%+v", f)
			}
		}
	}
}

// A pack file whose frame cannot be told any more holds contents all the same: it
// is not taken for one that nobody needs.
func TestPackFileOfADamagedFrameStays(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	apply(t, s, checkout(40)...)
	repacked(t, s)
	before := s.packLinks()
	err := s.update(func(txn *badger.Txn) error { return txn.Set(keyFrame(s.lastFrame), []byte{0xff}) })
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, Options{})
	if after := s.packLinks(); len(before) != 1 || len(after) != 1 {
		t.Errorf("%d pack files, then %d", len(before), len(after))
	}
	if c, err := s.Fsck(t.Context(), true, nil); err != nil || c.OK() {
		t.Errorf("fsck finds nothing: %v", err)
	}
	if after := s.packLinks(); len(after) != 1 {
		t.Errorf("%d pack files after fsck", len(after))
	}
}
