package content

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

// Parsing terminates whatever the index contains, and all frames in the result lie within the file.
func TestPackIndex(t *testing.T) {
	s := newTestLog(t)
	manyFiles(t, s, 40)
	s.repacked(t)
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
