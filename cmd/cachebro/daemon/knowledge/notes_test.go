package knowledge

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cachebro/store"
	"cachebro/store/keep"
)

func open(t *testing.T, dir string) *store.Store {
	t.Helper()
	s, err := store.Open(dir, store.Options{Ballast: -1, MinFree: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func book(t *testing.T, s *store.Store) *NoteBook {
	t.Helper()
	b, err := OpenNotes(s.KV("notes"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestModel checks that after any additions and removals the notebook has the same notes as a plain
// map, newest first. The same must hold after the notebook is opened again.
func TestModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 11))
	s := open(t, t.TempDir())
	b := book(t, s)
	model := map[string]Note{}
	var clock int64
	for range 600 {
		clock++
		switch {
		case len(model) > 0 && rng.IntN(4) == 0:
			var ids []string
			for id := range model {
				ids = append(ids, id)
			}
			slices.Sort(ids)
			ids = ids[:1+rng.IntN(min(3, len(ids)))]
			gone, err := b.Remove(ids...)
			if err != nil || len(gone) != len(ids) {
				t.Fatal(gone, err)
			}
			for _, id := range ids {
				delete(model, id)
			}
		case rng.IntN(20) == 0:
			b = book(t, s)
		default:
			n := Note{Text: fmt.Sprint("text ", rng.IntN(40)), Kind: []string{"", "todo", "Decision"}[rng.IntN(3)], Path: store.Path([]string{"", "a", "a/b\xff"}[rng.IntN(3)]), Time: clock}
			kept, added, err := b.Add(n)
			if err != nil {
				t.Fatal(err)
			}
			if _, had := model[kept.ID]; had == added {
				t.Fatalf("%v was added: %v", kept, added)
			}
			model[kept.ID] = kept
		}
		got := b.All()
		if len(got) != len(model) {
			t.Fatalf("%d notes, want %d", len(got), len(model))
		}
		for i, n := range got {
			if model[n.ID] != n || i > 0 && got[i-1].Time < n.Time {
				t.Fatalf("note %d is %v, want %v", i, n, model[n.ID])
			}
		}
	}
}

func TestBounds(t *testing.T) {
	b := book(t, open(t, t.TempDir()))
	for _, n := range []Note{{Text: " \n"}, {Text: strings.Repeat("x", maxText+1)}, {Text: "x", Kind: "two words"}, {Text: "x", Kind: strings.Repeat("k", 25)}} {
		if _, _, err := b.Add(n); !errors.Is(err, ErrInvalid) {
			t.Errorf("%.20q of kind %q: %v", n.Text, n.Kind, err)
		}
	}
	first, _, err := b.Add(Note{Text: " keep \xff me\n"})
	if err != nil || first.Text != "keep \ufffd me" || first.Kind != defaultKind || !strings.HasPrefix(first.ID, "not-") || len(first.ID) != 12 {
		t.Fatalf("%+v %v", first, err)
	}
	if _, err := b.Remove(first.ID, "not-00000000"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	if _, ok := b.Get(first.ID); !ok {
		t.Error("a removal that failed took one of the notes")
	}
}

// TestKept checks that notes survive a complete garbage collection and a restart of the store, and
// that readers see complete lists while others write.
func TestKept(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	b := book(t, s)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 25 {
				if _, _, err := b.Add(Note{Text: fmt.Sprint("from ", w, " number ", i), Time: time.Now().UnixNano()}); err != nil {
					t.Error(err)
				}
				if n := len(b.All()); n == 0 {
					t.Error("a list without what was just added")
				}
			}
		})
	}
	wg.Wait()
	keeper := keep.New(s, nil, nil)
	if _, err := keeper.Prune(t.Context(), 1, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := keeper.Collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c, err := s.Fsck(t.Context(), true); err != nil || !c.OK() {
		t.Fatal(c, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := book(t, open(t, dir)).All(); len(got) != 100 {
		t.Errorf("%d notes of 100", len(got))
	}
}
