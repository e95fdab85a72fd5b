package content

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"cachebro/store/leaf/cache"

	badger "github.com/dgraph-io/badger/v4"
)

// manyOf stores n versions of two files, of size bytes each. This gives long chains, with forks
// where an older content returns and is changed in another way.
func manyOf(t testing.TB, s *testLog, n, size int) {
	rnd := rand.New(rand.NewPCG(7, 7))
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	var back []byte
	for i := range n {
		at := rnd.IntN(len(b) - 300)
		for k := range 300 {
			b[at+k] = byte(rnd.Uint32())
		}
		if i%11 == 0 {
			back = slices.Clone(b)
		}
		if i%29 == 28 {
			b = back
		}
		s.put(t, fmt.Sprint("f", i%2), slices.Clone(b))
	}
}

// Verify reports a content as damaged if and only if it cannot be read, whichever content of its
// chain is broken or missing. It reads each content once.
func TestVerifyFindsWhatCannotBeRead(t *testing.T) {
	for seed := range uint64(3) {
		s := newTestLog(t)
		manyOf(t, s, 40, 140_000) // too large for a frame
		manyFiles(t, s, 30)
		if seed > 0 {
			s.repacked(t)
		}
		headers := map[Hash]header{}
		if err := s.eachBlob(func(h Hash, hd header) error { headers[h] = hd; return nil }); err != nil {
			t.Fatal(err)
		}
		all := slices.SortedFunc(maps.Keys(headers), func(a, b Hash) int { return slices.Compare(a[:], b[:]) })
		rnd := rand.New(rand.NewPCG(seed, 1))
		for i := range 3 {
			h := all[rnd.IntN(len(all))]
			err := s.db.Update(func(txn *badger.Txn) error {
				if i == 0 {
					return txn.Delete(keyBlob(h))
				}
				val, err := readValue(txn, h)
				if err != nil {
					return err
				}
				hd, payload, err := wholeBlob(txn, h, val)
				if err != nil || len(payload) == 0 {
					return err // deleted, or in a frame
				}
				payload = slices.Clone(payload)
				payload[len(payload)/2] ^= 0x40
				return txn.Set(keyBlob(h), append(hd.append(nil), payload...))
			})
			if err != nil && !errors.Is(err, ErrPruned) {
				t.Fatal(err)
			}
		}
		want := map[Hash]bool{}
		for _, h := range all {
			s.Forget()
			if _, err := s.Get(h); err != nil && !errors.Is(err, ErrPruned) {
				want[h] = true
			}
		}
		c, err := s.Verify(t.Context(), func(string, ...any) {})
		if err != nil || c.Unread != nil {
			t.Fatal(err, c.Unread)
		}
		if !maps.Equal(c.Bad, want) {
			t.Errorf("seed %d: %d contents damaged, want %d", seed, len(c.Bad), len(want))
		}
		if c.Blobs != len(all)-1 || len(want) == 0 {
			t.Errorf("seed %d: %d contents read of %d, %d damaged", seed, c.Blobs, len(all)-1, len(want))
		}
	}
}

// Verify visits each content once, after its base, and so soon that the base is still in memory.
func TestVerifyOrder(t *testing.T) {
	s := newTestLog(t)
	manyOf(t, s, 200, 5_000)
	bases := map[Hash]Hash{}
	if err := s.eachBlob(func(h Hash, hd header) error { bases[h] = hd.base; return nil }); err != nil {
		t.Fatal(err)
	}
	order, err := s.chains()
	if err != nil {
		t.Fatal(err)
	}
	seen, depth := map[Hash]int{}, map[Hash]int{}
	recent := cache.New[Hash, bool](40, nil)
	deepest := 0
	err = order.each(func(at item) error {
		seen[at.hash]++
		if base := bases[at.hash]; base != (Hash{}) {
			if seen[base] != 1 {
				return fmt.Errorf("%x comes before its base", at.hash[:4])
			}
			if _, ok := recent.Get(base); !ok {
				t.Errorf("%x comes long after its base", at.hash[:4])
			}
			depth[at.hash] = depth[base] + 1
			deepest = max(deepest, depth[at.hash])
		}
		if len(order.deltas[at.hash]) > 0 {
			recent.Put(at.hash, true)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for h := range bases {
		if seen[h] != 1 {
			t.Errorf("%x is read %d times", h[:4], seen[h])
		}
	}
	if len(depth) < 100 || deepest < 10 || len(seen) != len(bases) {
		t.Errorf("%d contents, %d of them read, %d with a base, at most %d deep", len(bases), len(seen), len(depth), deepest)
	}
}

func BenchmarkVerifyOfOneFile(b *testing.B) {
	s := newTestLog(b)
	manyOf(b, s, 2000, 200_000)
	for b.Loop() {
		c, err := s.Verify(b.Context(), b.Errorf)
		if err != nil || c.Unread != nil {
			b.Fatal(err, c.Unread)
		}
		b.ReportMetric(float64(c.Blobs), "contents")
	}
}
