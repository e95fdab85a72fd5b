package fusefs

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"cachebro/store/leaf/event"

	"golang.org/x/sys/unix"
)

func init() {
	helpers["random"] = func(args []string) error {
		var seed uint64
		var ops int
		if _, err := fmt.Sscan(args[0], &seed); err != nil {
			return err
		}
		if _, err := fmt.Sscan(args[1], &ops); err != nil {
			return err
		}
		return randomOps(seed, ops)
	}
}

// randomOps does ops random operations on the files below the working directory. Several processes
// do so at once, so most errors are expected.
func randomOps(seed uint64, ops int) error {
	r := rand.New(rand.NewPCG(seed, 1))
	name := func() string {
		return []string{"a", "b", "c", "d/a", "d/b", "e/a", "e/b", "d/f/a"}[r.IntN(8)]
	}
	dir := func() string { return []string{"d", "e", "d/f", "g"}[r.IntN(4)] }
	data := func() []byte { return bytes.Repeat([]byte{byte('a' + r.IntN(26))}, 1+r.IntN(9000)) }
	var held []*os.File
	for range ops {
		switch n := name(); r.IntN(16) {
		case 0, 1, 2:
			_ = os.WriteFile(n, data(), 0o644)
		case 3, 4:
			if h, err := os.OpenFile(n, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o644); err == nil {
				_, _ = h.Write(data())
				held = append(held, h)
			}
		case 5:
			_ = os.Rename(n, name())
		case 6:
			_ = os.Remove(n)
		case 7:
			_ = os.Link(n, name())
		case 8:
			_ = os.Truncate(n, int64(r.IntN(5000)))
		case 9:
			_ = os.Mkdir(dir(), 0o755)
		case 10:
			_ = os.Rename(dir(), dir())
		case 11:
			_ = unix.Renameat2(unix.AT_FDCWD, n, unix.AT_FDCWD, name(), unix.RENAME_EXCHANGE)
		case 12:
			_ = os.Symlink("../"+n, name())
		case 13:
			if h, err := os.OpenFile(n, os.O_RDWR, 0); err == nil {
				_, _ = h.WriteAt(data(), int64(r.IntN(5000)))
				held = append(held, h)
			}
		case 14:
			_ = os.Chmod(n, 0o600+os.FileMode(r.IntN(0o100)))
			_, _ = os.ReadFile(n)
			_, _ = os.ReadDir(dir())
		case 15:
			_ = os.Remove(dir())
		}
		if len(held) > 4 || len(held) > 0 && r.IntN(3) == 0 {
			_, _ = held[0].Write([]byte("late"))
			held[0].Close()
			held = held[1:]
		}
	}
	for _, h := range held {
		h.Close()
	}
	return nil
}

// lawful is an Observer that checks the rules of the Observer interface: content is passed to it
// before it is destroyed, and everything that is closed can be read.
type lawful struct {
	t *testing.T

	state    sync.Mutex // guards open
	open     map[uint64]bool
	unlawful int
}

func (l *lawful) fault(format string, args ...any) {
	if l.unlawful++; l.unlawful < 10 {
		l.t.Errorf(format, args...)
	}
}

func (l *lawful) Before(c Change) {
	if s := content(c.File); strings.HasPrefix(s, "!") {
		l.t.Errorf("before %s of %s: cannot read it: %s", opWords[c.Op], c.File.Path(), s)
	}
	l.state.Lock()
	defer l.state.Unlock()
	if c.Op == event.OpWrite || c.Op == event.OpTruncate {
		if l.open[c.File.ID()] {
			l.fault("before %s of %s, which is being written already", opWords[c.Op], c.File.Path())
		}
		l.open[c.File.ID()] = true
	}
}

func (l *lawful) Closed(c Closed) {
	st, err := c.File.Stat()
	if err != nil || st.Size != c.Stat.Size {
		l.t.Errorf("closed %s with size %d, but it has %d (%v)", c.LastPath, c.Stat.Size, st.Size, err)
	}
	if s := content(c.File); strings.HasPrefix(s, "!") {
		l.t.Errorf("closed %s: cannot read it: %s", c.LastPath, s)
	}
	l.state.Lock()
	defer l.state.Unlock()
	if !l.open[c.File.ID()] && c.Op != event.OpCreate {
		l.fault("closed %s, which nobody wrote", c.LastPath)
	}
	delete(l.open, c.File.ID())
}

func (l *lawful) Outside(f File, was, now event.Stat) {
	l.t.Errorf("%s was changed outside, says the mount: %+v %+v", f.Path(), was, now)
}

func (l *lawful) Done(Event)                   {}
func (l *lawful) Opened(File, Caller)          {}
func (l *lawful) Synced(File, <-chan struct{}) {}

// tree lists every name below dir with type, size, links and content.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.Walk(dir+"/.", func(path string, st os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %v", strings.TrimPrefix(path, dir), st.Mode())
		switch {
		case st.Mode().IsRegular():
			c, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %d %q", st.Size(), c)
		case st.Mode()&os.ModeSymlink != 0:
			to, _ := os.Readlink(path)
			fmt.Fprintf(&b, " -> %s", to)
		}
		fmt.Fprintln(&b)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Three processes do random operations on the same few files. Afterwards the mount shows exactly
// what the source contains, and no rule of the Observer was broken.
func TestRandomOperations(t *testing.T) {
	l := &lawful{t: t, open: make(map[uint64]bool)}
	f := mountTest(t, func(o *Options) { o.Observer = l })
	var wg sync.WaitGroup
	for seed := range 3 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			cmd := f.enter(helperCmd("random", fmt.Sprint(rand.Uint64N(1000)+uint64(seed)), "1500"))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		}()
	}
	wg.Wait()
	if on, under := tree(t, f.dir), tree(t, f.src); on != under {
		t.Errorf("the mount shows\n%.4000s\nthe source has\n%.4000s", on, under)
	}
	f.told()
	l.state.Lock()
	defer l.state.Unlock()
	if len(l.open) != 0 {
		t.Errorf("%d files were never closed", len(l.open))
	}
}

// The number of threads is bounded by the number of requests in progress. It once grew to 10,000,
// the limit at which the Go runtime ends a program.
func TestThreadsAreBounded(t *testing.T) {
	f := mountTest(t, nil)
	f.rec.quiet = true
	const workers = 100
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for w := range workers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			name := filepath.Join(f.dir, fmt.Sprint(w))
			for {
				select {
				case <-stop:
					return
				default:
				}
				_ = os.WriteFile(name, []byte("x"), 0o644)
				_ = os.Remove(name)
			}
		}()
	}
	most := 0
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		most = max(most, f.srv.Stats().Threads)
	}
	close(stop)
	wg.Wait()
	t.Logf("at most %d threads for %d workers", most, workers)
	// There is one thread for each request in progress, for each background request, and for each
	// thread in reserve.
	if limit := workers + 64 + maxReady + maxParked; most > limit {
		t.Errorf("%d threads, more than %d", most, limit)
	}
}
