package fusefs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// TestAppendBeside: two append to one file, one through the mount, the other
// to the source by a way that the mount does not know of. The kernel sends an
// append with the offset where it believes the end to be, and 1,512 of 20,000
// lines were overwritten.
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

// TestAttributesOvertaken: a request for the attributes of a directory is under
// way while a name comes into it. The reply, with the old time, was believed
// for an hour.
func TestAttributesOvertaken(t *testing.T) {
	f := mountTest(t, nil)
	d := filepath.Join(f.dir, "d")
	if err := os.Mkdir(d, 0o755); err != nil {
		t.Fatal(err)
	}
	var over atomic.Bool
	var wg sync.WaitGroup
	defer wg.Wait()
	defer over.Store(true)
	for range 3 {
		wg.Go(func() {
			for !over.Load() {
				if _, err := os.Stat(d); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	stale := 0
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
		on, err := os.Stat(d)
		if err != nil {
			t.Fatal(err)
		}
		under, err := os.Stat(filepath.Join(f.src, "d"))
		if err != nil {
			t.Fatal(err)
		}
		if !on.ModTime().Equal(under.ModTime()) {
			stale++
		}
	}
	if stale > 0 {
		t.Errorf("%d of 1500 times the old time of the directory was shown", stale)
	}
}
