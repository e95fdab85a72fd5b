package tidy

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cachebro/scripts/testkit/storetest"
	"cachebro/search"
	"cachebro/store"
	"cachebro/store/content"
	"cachebro/store/keep"
	"cachebro/store/leaf/limits"
	"cachebro/store/wire"
)

// All projects of a state directory share the cap; a single one may use all of it.
func TestProjectsShareTheCap(t *testing.T) {
	base := t.TempDir()
	const limit = 1 << 20
	project := func(name string, size int) string {
		t.Helper()
		state := filepath.Join(base, name+"-0123456789abcdef")
		if err := os.MkdirAll(filepath.Join(state, "store"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(state, "store", "000001.vlog"), []byte(strings.Repeat("x", size)), 0o600); err != nil {
			t.Fatal(err)
		}
		return state
	}
	a := project("a", 900<<10)
	if got := Allowed(a, limit); got != limit {
		t.Errorf("alone: %d of %d", got, limit)
	}
	b := project("b", 900<<10)
	if err := os.Mkdir(filepath.Join(base, "other"), 0o700); err != nil {
		t.Fatal(err)
	}
	all := Peers(base, limit, time.Now())
	if len(all) != 2 || all[0].Allowed+all[1].Allowed > limit {
		t.Errorf("%+v", all)
	}
	for _, state := range []string{a, b} {
		if got := Allowed(state, limit); got <= 0 || got >= limit {
			t.Errorf("%s: %d of %d", state, got, limit)
		}
	}
	if got := Allowed(filepath.Join(base, "none-0123456789abcdef"), limit); got != limit {
		t.Errorf("a store that takes nothing yet: %d of %d", got, limit)
	}
}

// The history of changes outside of projects does not count towards the cap that the projects
// share. When all of it is too old, its own cap is zero.
func TestOutsideHasItsOwnShare(t *testing.T) {
	base := t.TempDir()
	outside, err := wire.Paths{Override: base}.State(wire.OutsideRoot)
	if err != nil {
		t.Fatal(err)
	}
	project := filepath.Join(base, "project-0123456789abcdef")
	for _, state := range []string{outside, project} {
		if err := os.MkdirAll(filepath.Join(state, "store"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(state, "store", "000001.vlog"), make([]byte, 900<<10), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const limit = 1 << 20
	for _, state := range []string{outside, project} {
		if got := Allowed(state, limit); got != limit {
			t.Errorf("%s may take %d of %d", state, got, limit)
		}
	}
	for _, p := range Peers(base, limit, time.Now().Add(limits.OutsideFor+time.Hour)) {
		if want := map[string]int64{outside: 0, project: limit}[p.State]; p.Allowed != want {
			t.Errorf("much later %s may take %d, want %d", p.State, p.Allowed, want)
		}
	}
}

// The answer to a purge names what the purge could not reach.
func TestPurgeNamesWhatIsLeft(t *testing.T) {
	r := keep.Purged{Elsewhere: []store.Path{"copy.txt"}, Siblings: []content.Sibling{{Root: "/w/other", Dir: "/s/other/store"}, {Dir: "/s/gone/store"}},
		Unreached: []string{"exports"}}
	text := purgedText("secret.txt", r)
	for _, want := range []string{"nothing of secret.txt is in the history", "the same content is also stored for copy.txt", "cachebro store purge /w/other/secret.txt", "/s/gone", "not reached: exports"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestSharesBelowAPath(t *testing.T) {
	all := []keep.Share{{Name: "a"}, {Name: "a/b"}, {Name: "ab"}, {Name: "c"}}
	if got := shares(all, "a"); len(got) != 2 || got[1].Name != "a/b" {
		t.Errorf("%+v", got)
	}
	if got := shares(all, ""); len(got) != 4 {
		t.Errorf("%+v", got)
	}
}

// slowCorpus has one file, which can be read once the channel is closed.
type slowCorpus struct {
	search.Corpus
	readable chan struct{}
}

func (slowCorpus) Seq() uint64            { return 1 }
func (slowCorpus) Secret(store.Path) bool { return false }
func (slowCorpus) Live(_ store.Path, fn func(store.Version) error) error {
	return fn(store.Version{Seq: 1, Path: "f", Op: store.OpWrite, Blob: store.Hash{1}, Stat: store.Stat{Mode: 0o100644, Size: 1}})
}
func (c slowCorpus) LiveAfter(_ store.Path, fn func(store.Version) error) error {
	return c.Live("", fn)
}
func (slowCorpus) Since(uint64, int) ([]store.Version, error) { return nil, nil }
func (c slowCorpus) Read(store.Path, []byte) ([]byte, error) {
	<-c.readable
	return nil, os.ErrNotExist
}
func (slowCorpus) Content(store.Hash) ([]byte, error) { return []byte("x"), nil }

// The limits of the store are enforced after the first index, not during it. Packing contents at the
// same time took the daemon from 273 to 450 MB.
func TestCollectWaitsForFirstIndex(t *testing.T) {
	c := slowCorpus{readable: make(chan struct{})}
	x := search.Open(filepath.Join(t.TempDir(), "index"), c, search.Options{})
	defer x.Close()
	td := New(Options{Store: storetest.Fresh(t), Index: x, Log: slog.New(slog.DiscardHandler)})
	done := make(chan error, 1)
	go func() { done <- x.CatchUp(t.Context()) }()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, making := x.Progress(); making > 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the first index does not begin")
		}
	}
	td.Collect(t.Context())
	if !td.collected.IsZero() {
		t.Error("collected during the first index")
	}
	close(c.readable)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	td.Collect(t.Context())
	if td.collected.IsZero() {
		t.Error("not collected after the first index")
	}
}
