package diff

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

func BenchmarkScattered(b *testing.B) {
	old := []byte(lines(1, 50000, "some line of ordinary length, number "))
	ls := Lines(old)
	for i := 50; i < len(ls); i += 100 {
		ls[i] = []byte("another\n")
	}
	new := bytes.Join(ls, nil)
	b.ReportAllocs()
	for b.Loop() {
		Compare(old, new).Body(Context)
	}
}

// Lines that exist on both sides cannot be excluded in advance, so the search does all the work.
func BenchmarkScatteredShared(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	old := randomText(r, 50000, 26)
	ls := Lines(old)
	for i := 50; i < len(ls); i += 100 {
		ls[i] = []byte{byte('a' + r.IntN(26)), '\n'}
	}
	new := bytes.Join(ls, nil)
	for b.Loop() {
		Compare(old, new).Body(Context)
	}
}
