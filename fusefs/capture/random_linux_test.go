package capture

import (
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"cachebro/store/leaf/ignore"
)

// The test does random operations on many files at once. The log has every content that was closed
// and every content that existed before, in order, and nothing else.
func TestRandomWriters(t *testing.T) {
	h := newHarness(t, func(o *Options) { o.MaxQueue = 16 })
	var wg sync.WaitGroup
	want := make([][]string, 8)
	for g := range want {
		wg.Add(1)
		go func() {
			defer wg.Done()
			rng := rand.New(rand.NewSource(int64(g)))
			p := fmt.Sprint("f", g)
			var f *file
			text := ""
			closed := func() { want[g] = append(want[g], text) }
			for i := range 150 {
				fresh := strings.Repeat(fmt.Sprintf("%d.%d ", g, i), 1+rng.Intn(100)*rng.Intn(400)*rng.Intn(2))
				switch {
				case f == nil:
					text = fresh
					f = h.create(p, text)
				case rng.Intn(3) == 0:
					text = fresh
					f.replace(text)
					f.close()
				case rng.Intn(2) == 0:
					f.write(int64(len(text)), "+", nil)
					text += "+"
					f.close()
				case rng.Intn(2) == 0:
					text = fresh
					tmp := h.create(p+".new", text)
					tmp.rename(p, f)
					f = tmp
					continue // the content is recorded under the file's other name
				default:
					f.unlink()
					f = nil
					continue
				}
				closed()
			}
		}()
	}
	wg.Wait()
	log := h.log()
	wantNoGaps(t, log)
	for g := range want {
		wantVersions(t, log, fmt.Sprint("f", g), want[g]...)
	}
	if st := h.c.Stats(); st.Queue != 0 || st.Held != 0 {
		t.Errorf("left: %+v", st)
	}
	if l, _ := filepath.Glob("/proc/self/fd/*"); len(l) > 100 {
		t.Errorf("%d descriptors are open", len(l))
	}
}

// A file that the ignore rules exclude becomes tracked when git adds it to its index, and its
// earlier content is saved before the next change.
func TestIndexMakesTracked(t *testing.T) {
	h := newHarness(t, nil)
	m := rules(t, h)
	os.RemoveAll(h.name(".git"))
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", h.root, "-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Skipf("git %v: %v %s", args, err, out)
		}
	}
	git("init", "-q")
	f := h.file("forced.tmp", "1")
	git("add", "-f", "forced.tmp")
	h.c.BaselineDone(time.Now().Add(time.Hour))
	for deadline := time.Now().Add(5 * time.Second); m.Class("forced.tmp", false) != ignore.Tracked; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("git's index is not noticed")
		}
	}
	f.replace("2")
	f.close()
	wantVersions(t, h.log(), "forced.tmp", "1", "2")
}
