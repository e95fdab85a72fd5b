package content_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"cachebro/store"
	"cachebro/store/content"
	"cachebro/store/space"
)

// Two stores write the same contents, and adopt, pack and prune at the same time. One of them also
// purges. Neither loses anything.
func TestSiblingsBusy(t *testing.T) {
	o := testOptions()
	o.KeepAge = time.Nanosecond
	ss := family(t, 2, o)
	ctx := context.Background()
	errs := make([]error, 2)
	last := []map[Path]string{{}, {}}
	var wg sync.WaitGroup
	for i, s := range ss {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(21, 21)) // both store the same contents
			for n := range 24 {
				var cs []Change
				for f := range 6 {
					text := string(noise(rnd, 120))
					cs = append(cs, Change{Op: OpWrite, Path: Path(fmt.Sprintf("f%d.go", f)), Time: int64(n), HasContent: true,
						Content: []byte(text), Stat: store.Stat{Mode: fileMode, Size: int64(len(text)), Nlink: 1}})
					last[i][cs[f].Path] = text
				}
				if _, err := s.Apply(ctx, cs, nil); err != nil {
					errs[i] = err
					return
				}
				var err error
				switch n % 4 {
				case 0:
					_, err = s.Contents().Adopt(ctx)
				case 1:
					s.Contents().Lock()
					err = s.Contents().Repack(ctx, false, &content.Report{})
					s.Contents().Unlock()
				case 2:
					s.Contents().Lock()
					err = s.Contents().EndOffersNow(ctx, &content.Report{})
					s.Contents().Unlock()
				case 3:
					if n < 20 {
						_, err = s.Prune(ctx, 2, "")
					} else if i == 0 {
						_, err = s.Purge(ctx, "f5.go")
						delete(last[i], "f5.go")
					}
				}
				if err != nil {
					errs[i] = fmt.Errorf("round %d: %w", n, err)
					return
				}
			}
		})
	}
	wg.Wait()
	for i, s := range ss {
		if errs[i] != nil {
			t.Fatalf("store %d: %v", i, errs[i])
		}
		for p, want := range last[i] {
			if got := contentOf(t, s, p); got != want {
				t.Fatalf("store %d: %q is not what was written last", i, p)
			}
		}
		checked(t, s)
	}
}

const siblingDir = "CACHEBRO_STORE_SIBLING_DIR"

// siblingChanges returns what both stores of TestKillSibling store in round n.
func siblingChanges(n int) []Change {
	rnd := rand.New(rand.NewPCG(uint64(n), 31))
	var cs []Change
	for f := range 8 {
		text := noise(rnd, 150)
		cs = append(cs, Change{Op: OpWrite, Path: Path(fmt.Sprintf("f%d.go", f)), Time: int64(n), HasContent: true,
			Content: text, Stat: store.Stat{Mode: fileMode, Size: int64(len(text)), Nlink: 1}})
	}
	return cs
}

// TestSiblingChild is the process that TestKillSibling starts and kills. In an endless loop it
// adopts files, stores what its sibling has stored, and prunes. In any other run it does nothing.
func TestSiblingChild(t *testing.T) {
	base := os.Getenv(siblingDir)
	if base == "" {
		return
	}
	o := familyOptions(base, 2, 1, testOptions())
	o.KeepAge = time.Nanosecond
	s, err := opened(familyDir(base, 1), o)
	if err != nil {
		t.Fatal(err)
	}
	for n := int(s.Seq()) / 8; ; n++ {
		adopts(t, s)
		apply(t, s, siblingChanges(n)...)
		settled(t, s)
		if n%3 == 2 {
			if _, err := s.Prune(context.Background(), 2, ""); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A store is killed at random moments while it adopts, uses and releases files, and its sibling
// packs and prunes its own files. Both stores are intact afterwards, and no unused pack file
// remains.
func TestKillSibling(t *testing.T) {
	if os.Getenv(siblingDir) != "" {
		return
	}
	base := t.TempDir()
	o := familyOptions(base, 2, 0, testOptions())
	o.KeepAge = time.Nanosecond
	a := open(t, familyDir(base, 0), o)
	rounds, n := 6, 0
	if testing.Short() {
		rounds = 3
	}
	shared := 0
	for range rounds {
		cmd := exec.Command(os.Args[0], "-test.run=^TestSiblingChild$")
		cmd.Env = append(os.Environ(), siblingDir+"="+base)
		var out bytes.Buffer
		cmd.Stdout = &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		until := time.Now().Add(80*time.Millisecond + rand.N(400*time.Millisecond))
		for i := 0; time.Now().Before(until); i++ {
			apply(t, a, siblingChanges(n)...)
			n++
			repacked(t, a)
			if i%4 == 3 {
				if _, err := a.Prune(context.Background(), 4, ""); err != nil {
					t.Fatal(err)
				}
			}
		}
		cmd.Process.Kill()
		cmd.Wait()
		if cmd.ProcessState.Exited() {
			t.Fatalf("it ended by itself:\n%s", &out)
		}
		b := open(t, familyDir(base, 1), familyOptions(base, 2, 1, testOptions()))
		for f := range 8 {
			p := Path(fmt.Sprintf("f%d.go", f))
			if _, found, _ := b.Current(p); found {
				contentOf(t, b, p)
			}
		}
		all, _ := space.Shared(b.Dir())
		shared += int(all)
		checked(t, b)
		checked(t, a)
		files, _ := os.ReadDir(filepath.Join(b.Dir(), space.PacksDir))
		if held := len(b.Contents().PackFiles()); len(files) != held {
			t.Fatalf("%d files, %d pack files", len(files), held)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d rounds, %d batches, %d bytes were shared", rounds, n, shared)
}
