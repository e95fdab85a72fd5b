package search

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"cachebro/store"
)

// slowCorpus counts how many of its files are read at the same time.
type slowCorpus struct {
	*diskCorpus
	reading, most atomic.Int32
}

func (c *slowCorpus) Read(p store.Path, buf []byte) ([]byte, error) {
	n := c.reading.Add(1)
	defer c.reading.Add(-1)
	for {
		m := c.most.Load()
		if n <= m || c.most.CompareAndSwap(m, n) {
			break
		}
	}
	time.Sleep(5 * time.Millisecond)
	return c.diskCorpus.Read(p, buf)
}

// While somebody waits for answers, one worker indexes. Otherwise all workers do. When all workers
// always indexed, a read during the first indexing of a large tree waited 135 ms in the worst of a
// hundred cases.
func TestOneWorkerWhileAsked(t *testing.T) {
	for _, asked := range []bool{true, false} {
		c := &slowCorpus{diskCorpus: newDiskCorpus(t, t.TempDir())}
		for n := range 40 {
			c.write(t, fmt.Sprintf("f%d.go", n), fmt.Sprintf("package p\n\nfunc f%d() {}\n", n))
		}
		x := Open(t.TempDir(), c, Options{Workers: 4, Asked: func() bool { return asked }})
		t.Cleanup(func() { x.Close() })
		if err := x.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		if most := c.most.Load(); asked && most != 1 || !asked && most < 2 {
			t.Errorf("asked %v: %d at a time", asked, most)
		}
		if st := x.Stats(); st.Analysed != 40 || st.Lag != 0 {
			t.Errorf("asked %v: %+v", asked, st)
		}
	}
}

// The index reads a file if the file still has the version's content. If the file has changed or
// was deleted, the index reads the stored content of the version.
func TestContentOfTheVersion(t *testing.T) {
	c := newDiskCorpus(t, t.TempDir())
	c.write(t, "f.go", "package old\n")
	old := c.log[len(c.log)-1]
	c.write(t, "f.go", "package new\n")
	last := c.log[len(c.log)-1]
	x := Open(t.TempDir(), c, Options{})
	t.Cleanup(func() { x.Close() })
	for v, want := range map[*store.Version]string{&old: "package old\n", &last: "package new\n"} {
		if b, err := x.content(*v); err != nil || string(b) != want {
			t.Errorf("version %d: %q, %v", v.Seq, b, err)
		}
	}
	if err := os.Remove(filepath.Join(c.root, "f.go")); err != nil {
		t.Fatal(err)
	}
	if b, err := x.content(old); err != nil || string(b) != "package old\n" {
		t.Errorf("of a file that is gone: %q, %v", b, err)
	}
}

// awayCorpus is a corpus whose files cannot be read for now. Each attempt to read one takes long
// and fails.
type awayCorpus struct {
	*diskCorpus
	asked atomic.Int32
}

func (c *awayCorpus) Read(store.Path, []byte) ([]byte, error) {
	c.asked.Add(1)
	time.Sleep(1100 * time.Millisecond)
	return nil, os.ErrDeadlineExceeded
}

// If reading files delays the index, it does not try to read every file.
func TestFilesThatDoNotAnswer(t *testing.T) {
	c := &awayCorpus{diskCorpus: newDiskCorpus(t, t.TempDir())}
	for n := range 40 {
		c.write(t, fmt.Sprintf("f%d.go", n), fmt.Sprintf("package p\n\nfunc f%d() {}\n", n))
	}
	x := Open(t.TempDir(), c, Options{Workers: 1})
	t.Cleanup(func() { x.Close() })
	if err := x.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := x.Stats(); st.Indexed != 40 || c.asked.Load() != 1 {
		t.Errorf("%+v, %d files were asked for", st, c.asked.Load())
	}
}
