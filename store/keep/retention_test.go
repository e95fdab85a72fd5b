package keep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cachebro/scripts/testkit/storetest"
	"cachebro/store"
)

func TestPrune(t *testing.T) {
	now := storetest.Now()
	o := testOptions()
	o.KeepAge, o.Now = time.Hour, func() time.Time { return now }
	s := open(t, t.TempDir(), o)
	rnd := rand.New(rand.NewPCG(1, 1))
	text := noise(rnd, 300)
	const versions = 40
	texts := map[uint64]string{}
	for i := range versions {
		copy(text[49*(i*7):], fmt.Sprintf("%048d", i))
		v := apply(t, s, file(OpWrite, "a", string(text)))[0]
		texts[v.Seq] = string(text)
	}
	apply(t, s, file(OpCreate, "gone", "of another file\n"), op(store.OpUnlink, "gone", "", fileMode))
	now = storetest.Now().Add(2 * time.Hour)
	var pin Hash
	vs, _ := s.History("a", true)
	pin = vs[3].Blob
	s.pinned = func(h Hash) bool { return h == pin }
	due, err := s.Due(context.Background(), 5)
	if err != nil || due.Versions != versions-6 || len(due.Paths) != 1 || due.Paths[0].Versions != due.Versions || due.Bytes != int64(due.Versions*len(text)) {
		t.Fatalf("due: %+v %v", due, err)
	}
	if r, err := s.Prune(context.Background(), 4, due.Digest); !errors.Is(err, ErrOtherPlan) || r.Versions != 0 {
		t.Fatalf("another plan: %+v %v", r, err)
	}
	r, err := s.Prune(context.Background(), 5, due.Digest)
	if err != nil || r.Versions != versions-6 || r.Rebased == 0 {
		t.Fatalf("prune: %+v %v", r, err)
	}
	checked(t, s)
	s.Contents().Forget()
	vs, _ = s.History("a", true)
	for i, v := range vs {
		b, err := s.Content(v.Blob)
		if i >= versions-5 || i == 3 {
			if err != nil || string(b) != texts[v.Seq] {
				t.Fatalf("version %d of %d: %v", i, len(vs), err)
			}
		} else if !errors.Is(err, store.ErrPruned) || v.NoContent != "pruned" {
			t.Fatalf("version %d: %v %q", i, err, v.NoContent)
		}
	}
	if again, err := s.Due(context.Background(), 5); err != nil || again.Versions != 0 || again.Digest == due.Digest {
		t.Fatalf("due afterwards: %+v %v", again, err)
	}
	if r, err := s.Prune(context.Background(), 5, ""); err != nil || r.Versions != 0 {
		t.Fatalf("second prune: %+v %v", r, err)
	}
	if vs, _ := s.History("gone", true); vs[0].Blob == (Hash{}) {
		t.Fatal("the only content of a deleted file was pruned")
	}
}

// The cap holds while the store is written to, the disk usage really shrinks, and the present
// contents of files stay.
func TestCap(t *testing.T) {
	o := testOptions()
	o.Cap = 24 * mib
	s := open(t, t.TempDir(), o)
	rnd := rand.New(rand.NewPCG(1, 1))
	last := map[Path][]byte{}
	worst := int64(0)
	for i := range 50 {
		var cs []Change
		for f := range 5 {
			p := Path(fmt.Sprintf("f%d", f))
			last[p] = noise(rnd, 4000) // 200 kB each, 140 kB stored
			cs = append(cs, file(OpWrite, p, string(last[p])))
		}
		apply(t, s, cs...)
		if i%10 == 9 {
			if _, err := s.Collect(context.Background()); err != nil {
				t.Fatal(err)
			}
			used, _, _ := s.DiskUsage()
			worst = max(worst, used)
		}
	}
	t.Logf("wrote %d MiB of contents under a cap of %d MiB; after collections at most %d MiB on disk",
		50*5*4000*49/mib, o.Cap/mib, worst/mib)
	if worst > o.Cap {
		t.Errorf("%d MiB on disk", worst/mib)
	}
	s.Contents().Forget()
	for p, text := range last {
		if contentOf(t, s, p) != string(text) {
			t.Fatalf("%q lost", p)
		}
	}
	checked(t, s)
	u, err := s.DU(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	sum := int64(0)
	for _, sh := range u.Paths {
		sum += sh.Bytes
	}
	t.Logf("disk %d, contents %d, log %d; by path %d", u.Disk, u.Contents, u.Log, sum)
	if d := float64(u.Contents-sum) / float64(u.Contents); d > 0.1 || d < -0.1 {
		t.Errorf("paths sum up to %d of %d", sum, u.Contents)
	}
}

// grepDir finds a string in the files of a directory.
func grepDir(t *testing.T, dir, what string) (hits []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		if bytes.Contains(b, []byte(what)) {
			hits = append(hits, filepath.Base(p))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return hits
}

// A secret was written into a file, changed, and became the base of deltas of other files. After a
// purge the secret is nowhere in the store's files.
func TestPurge(t *testing.T) {
	s := fresh(t)
	rnd := rand.New(rand.NewPCG(3, 3))
	secret := "SECRET-" + strings.Repeat("x9", 3) + "-KEY"
	key := secret + string(noise(rnd, 1)) // incompressible, so it is stored raw
	long := string(noise(rnd, 400))
	apply(t, s, file(OpWrite, "keep", long), file(OpWrite, ".env", key), file(OpWrite, ".env", long+key))
	moved := op(OpRename, ".env", "notes", fileMode)
	apply(t, s, moved)
	apply(t, s, file(OpWrite, "notes", long+"clean\n"))
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	if hits := grepDir(t, s.Dir(), secret); len(hits) == 0 {
		t.Fatal("the test cannot see the secret in the store's files to begin with")
	}
	p, err := s.Purge(context.Background(), ".env")
	if err != nil || p.Versions != 2 || len(p.Elsewhere) != 1 || p.Elsewhere[0] != "notes" {
		t.Fatalf("purge: %+v %v", p, err)
	}
	if p, err = s.Purge(context.Background(), "notes"); err != nil || p.Blobs == 0 {
		t.Fatalf("purge: %+v %v", p, err)
	}
	if hits := grepDir(t, s.Dir(), secret); len(hits) > 0 {
		t.Fatalf("the secret is still in %v", hits)
	}
	if contentOf(t, s, "keep") != long {
		t.Fatal("purged too much")
	}
	checked(t, s)
	if _, err := s.Purge(context.Background(), "never"); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("purge of nothing: %v", err)
	}
}

// A plan that nobody has finished, such as that of an undo that was killed at its question, used to
// keep purged contents in the store.
func TestPurgeDuringAPlan(t *testing.T) {
	s := fresh(t)
	secret := "SECRET-x9-KEY" + string(noise(rand.New(rand.NewPCG(3, 3)), 1))
	apply(t, s, file(OpWrite, ".env", secret), file(OpWrite, ".env", "clean"), file(OpWrite, "other", "of the plan, too"))
	first, err := s.Version(1)
	if err != nil {
		t.Fatal(err)
	}
	other, err := s.Version(3)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, s, file(OpWrite, "other", "changed"))
	p := &store.Plan{Kind: store.PlanUndo, Steps: []store.Step{{Do: store.DoWrite, Path: ".env", Blob: first.Blob}, {Do: store.DoWrite, Path: "other", Blob: other.Blob}}}
	if err := s.Journal.Begin(t.Context(), p, nil); err != nil {
		t.Fatal(err)
	}
	if p, err := s.Purge(t.Context(), ".env"); err != nil || p.Blobs != 2 || len(p.Elsewhere) > 0 {
		t.Errorf("purge: %+v, %v", p, err)
	}
	if hits := grepDir(t, s.Dir(), "SECRET-x9-KEY"); len(hits) > 0 {
		t.Errorf("the secret is still in %v", hits)
	}
	if !s.Has(other.Blob) {
		t.Error("the plan has lost a content that was not purged")
	}
	if p, err := s.Purge(t.Context(), "elsewhere"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("purge of nothing: %+v, %v", p, err)
	}
}

// steps is a context that is cancelled after a number of calls of Err.
type steps struct {
	context.Context
	left atomic.Int64
}

func (c *steps) Err() error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// A purge that was interrupted at any of its steps is finished by the next one.
func TestPurgeCutShort(t *testing.T) {
	for cut := int64(0); ; cut++ {
		s := fresh(t)
		secret := "SECRET-x9-KEY"
		apply(t, s, file(OpWrite, ".env", secret+string(noise(rand.New(rand.NewPCG(3, 3)), 1))))
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
		ctx := &steps{Context: context.Background()}
		ctx.left.Store(cut)
		_, err := s.Purge(ctx, ".env")
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if _, err := s.Purge(context.Background(), ".env"); err != nil && !errors.Is(err, store.ErrNotFound) {
			t.Fatal(err)
		}
		if hits := grepDir(t, s.Dir(), secret); len(hits) > 0 {
			t.Fatalf("cut short at step %d and done again: the secret is still in %v", cut, hits)
		}
		if err == nil {
			return
		}
	}
}
