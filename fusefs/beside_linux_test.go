package fusefs

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestAppendBeside: two processes append to one file, one through the mount, the other directly to
// the source, where the mount does not notice it. The kernel sends an append with the offset that
// it believes to be the end of the file, so 1,512 of 20,000 lines used to be overwritten.
func TestAppendBeside(t *testing.T) {
	f := mountTest(t, nil)
	f.write("a", "")
	const each, width = 3000, 16 // lines of 16 bytes never cross a page's end
	var wg sync.WaitGroup
	for who, dir := range map[string]string{"mount": f.dir, "beside": f.src} {
		wg.Go(func() {
			h, err := os.OpenFile(filepath.Join(dir, "a"), os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				t.Error(err)
				return
			}
			defer h.Close()
			for i := range each {
				if _, err := fmt.Fprintf(h, "%-8s%7d\n", who, i); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	for side, dir := range map[string]string{"mount": f.dir, "source": f.src} {
		b, err := os.ReadFile(filepath.Join(dir, "a"))
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for line := range bytes.Lines(b) {
			seen[string(line)] = true
		}
		lost := 0
		for _, who := range []string{"mount", "beside"} {
			for i := range each {
				if !seen[fmt.Sprintf("%-8s%7d\n", who, i)] {
					lost++
				}
			}
		}
		if lost > 0 || len(b) != 2*each*width {
			t.Errorf("%s: %d of %d lines are lost, %d bytes", side, lost, 2*each, len(b))
		}
	}
}

// TestAttributesOvertaken: a name is created in a directory while a request for the directory's
// attributes is being answered. The kernel used to trust the reply, which contained the old time,
// for an hour.
func TestAttributesOvertaken(t *testing.T) {
	f := mountTest(t, nil)
	ask := map[string]func(d string, reader int) error{
		"stat": func(d string, _ int) error { // GETATTR
			_, err := os.Stat(d)
			return err
		},
		"list": func(d string, reader int) error { // READDIRPLUS: the change makes the kernel forget the names
			up := filepath.Dir(d)
			name := filepath.Join(up, fmt.Sprint("reader", reader))
			if err := os.WriteFile(name, nil, 0o644); err != nil {
				return err
			}
			if err := os.Remove(name); err != nil {
				return err
			}
			_, err := os.ReadDir(up)
			return err
		},
	}
	for name, ask := range ask {
		t.Run(name, func(t *testing.T) {
			// On a busy machine the kernel itself shows an old time once in thousands of tries (see
			// below). A bug in the overlay would show one in every try.
			stale := 0
			for try := range 3 {
				if stale = attributesOvertaken(t, f, fmt.Sprint(name, try), ask); stale == 0 {
					return
				}
			}
			t.Errorf("%d of 1500 times the old time of the directory was shown", stale)
		})
	}
}

// attributesOvertaken counts how often the old time was shown.
func attributesOvertaken(t *testing.T, f *fixture, name string, ask func(d string, reader int) error) (stale int) {
	rel := filepath.Join(name, "d")
	d := filepath.Join(f.dir, rel)
	if err := os.MkdirAll(d, 0o755); err != nil {
		t.Fatal(err)
	}
	var over atomic.Bool
	var wg sync.WaitGroup
	defer wg.Wait()
	defer over.Store(true)
	for reader := range 3 {
		wg.Go(func() {
			for !over.Load() {
				if err := ask(d, reader); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 1500 {
		name := filepath.Join(d, fmt.Sprint(i))
		var err error
		switch i % 3 {
		case 0:
			err = os.WriteFile(name, nil, 0o644)
		case 1:
			err = os.Mkdir(name, 0o755)
		case 2:
			err = os.Remove(filepath.Join(d, fmt.Sprint(i-1)))
		}
		if err != nil {
			t.Fatal(err)
		}
		under, err := os.Stat(filepath.Join(f.src, rel))
		if err != nil {
			t.Fatal(err)
		}
		// The kernel marks attributes as valid a moment before it sets them
		// (fuse_change_attributes_common), and may be interrupted in between. So only an old time
		// that is shown twice counts.
		for again := range 2 {
			on, err := os.Stat(d)
			if err != nil {
				t.Fatal(err)
			}
			if on.ModTime().Equal(under.ModTime()) {
				break
			}
			stale += again
		}
	}
	return stale
}

// TestBytesBeside: files are changed both through the mount and directly in the source, by name and
// through handles that were opened earlier. A process that opens a file must read its present
// bytes. A change through the mount used to hide an earlier change in the source that the mount had
// not noticed, and readers got the old bytes from then on.
func TestBytesBeside(t *testing.T) {
	f := mountTest(t, func(o *Options) { o.Outside = true })
	side := [2]string{f.dir, f.src}
	names := []string{"a", "b", "c"}
	held := [2]map[string]*os.File{{}, {}}
	defer func() {
		for _, all := range held {
			for _, h := range all {
				h.Close()
			}
		}
	}()
	for _, name := range names {
		f.write(name, strings.Repeat("-", 9000))
		for i := range side {
			h, err := os.OpenFile(filepath.Join(side[i], name), os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			held[i][name] = h
		}
	}
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	var did []string
	for op := range 4000 {
		i, name := rng.IntN(2), names[rng.IntN(len(names))]
		path, h := filepath.Join(side[i], name), held[i][name]
		at, text := int64(rng.IntN(9000)), fmt.Appendf(nil, "%d by %d", op, i)
		var what string
		var err error
		switch rng.IntN(9) {
		case 0, 1:
			what = "write by a handle"
			_, err = h.WriteAt(text, at)
		case 2, 3:
			what = "write by name"
			var g *os.File
			if g, err = os.OpenFile(path, os.O_WRONLY, 0); err == nil {
				_, err = g.WriteAt(text, at)
				g.Close()
			}
		case 4:
			what = "append"
			var g *os.File
			if g, err = os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0); err == nil {
				_, err = g.Write(text)
				g.Close()
			}
		case 5:
			what = "chmod"
			err = os.Chmod(path, 0o600+os.FileMode(rng.IntN(0o100)))
		case 6:
			what = "utimes"
			err = os.Chtimes(path, time.Time{}, time.Unix(1e9, 0))
		case 7:
			what = "link"
			if err = os.Link(path, path+".2"); err == nil {
				err = os.Remove(path + ".2")
			}
		case 8:
			what = "truncate"
			err = h.Truncate(8000 + at/8)
		}
		did = append(did, fmt.Sprintf("%d %s of %s at %d", i, what, name, at))
		if err != nil {
			t.Fatal(did[len(did)-1], err)
		}
		if rng.IntN(2) == 0 {
			continue
		}
		on, err1 := os.ReadFile(filepath.Join(f.dir, name))
		under, err2 := os.ReadFile(filepath.Join(f.src, name))
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		if !bytes.Equal(on, under) {
			t.Fatalf("%d bytes through the mount, %d on the source, not the same; the last operations (0: mount): %q", len(on), len(under), did[max(0, len(did)-12):])
		}
	}
}
