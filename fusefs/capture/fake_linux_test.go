package capture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cachebro/fusefs"
	"cachebro/store/leaf/event"
	"cachebro/store/leaf/ignore"
	"cachebro/store/leaf/spool"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("MOUNTD_TEST_TAILS"); dir != "" {
		seeds, err := strconv.Atoi(os.Getenv("MOUNTD_TEST_SEEDS"))
		if err = errors.Join(err, tailAgent(dir, seeds)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if os.Getenv("MOUNTD_TEST_STORE") != "" {
		if err := storeThroughMapping(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if runtime.GOMAXPROCS(0) < 4 { // a process must not wait for a mount that it serves itself
		runtime.GOMAXPROCS(4)
	}
	goleak.VerifyTestMain(m)
}

// file implements fusefs.File with a real file. order takes the place of the overlay's lock on an
// inode.
type file struct {
	h     *harness
	order sync.Mutex
	id    uint64
	names sync.RWMutex // read-locked while the file is opened by its name, so that the name does not change
	path  atomic.Pointer[string]
	mark  atomic.Uint32
	dirty bool
	made  bool
	tail  int64
}

func (f *file) ID() uint64        { return f.id }
func (f *file) Path() string      { return *f.path.Load() }
func (f *file) NamesSeen() uint32 { return 0 }
func (f *file) Paths(int) []string {
	if p := f.Path(); p != "" {
		return []string{p}
	}
	return nil
}

func (f *file) Mark() *atomic.Uint32 { return &f.mark }

func (f *file) Open() (int, error) {
	if f.h.slow.Load() > 0 {
		time.Sleep(time.Duration(f.h.slow.Load()))
	}
	f.names.RLock()
	defer f.names.RUnlock()
	if p := f.Path(); p != "" {
		return syscall.Open(filepath.Join(f.h.root, p), syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	}
	return -1, syscall.ESTALE
}

func (f *file) At(fn func(string) error) error {
	fd, err := f.Open()
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	return fn(fmt.Sprintf("/proc/self/fd/%d", fd))
}

func (f *file) Stat() (event.Stat, error) {
	f.names.RLock()
	defer f.names.RUnlock()
	if f.Path() == "" {
		return event.Stat{}, syscall.ESTALE
	}
	return statOf(filepath.Join(f.h.root, f.Path()))
}

func statOf(name string) (event.Stat, error) {
	var st syscall.Stat_t
	if err := syscall.Lstat(name, &st); err != nil {
		return event.Stat{}, err
	}
	return event.Stat{Dev: st.Dev, Ino: st.Ino, Mode: st.Mode, Nlink: uint32(st.Nlink), Size: st.Size,
		Mtime: st.Mtim.Nano(), Ctime: st.Ctim.Nano()}, nil
}

// harness acts as the overlay: it calls Capture as package fusefs specifies, around real operations
// on real files.
type harness struct {
	t    testing.TB
	root string
	dir  string // the spool
	w    *spool.Writer
	c    *Capture
	ids  atomic.Uint64
	slow atomic.Int64 // ns that every Open takes
	by   fusefs.Caller
}

func newHarness(t testing.TB, change func(*Options)) *harness {
	t.Helper()
	h := &harness{t: t, root: t.TempDir(), dir: t.TempDir()}
	h.by = fusefs.Caller{PID: 7, Proc: &fusefs.Process{PID: 7, Start: 70, Comm: "sed"}}
	h.start(change)
	return h
}

func (h *harness) start(change func(*Options)) {
	h.t.Helper()
	var err error
	if h.w, err = spool.OpenWriter(h.dir, spool.Options{}); err != nil {
		h.t.Fatal(err)
	}
	o := Options{Spool: h.w}
	if change != nil {
		change(&o)
	}
	h.c = New(o)
	h.t.Cleanup(h.stop)
}

// stop ends capture in an orderly way. Everything that was queued is then in the spool.
func (h *harness) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := h.c.Close(ctx); err != nil {
		h.t.Errorf("close: %v", err)
	}
	h.w.Close()
}

func (h *harness) name(p string) string { return filepath.Join(h.root, p) }

// file returns an existing file that capture has not seen yet.
func (h *harness) file(p string, content string) *file {
	h.t.Helper()
	if err := os.MkdirAll(filepath.Dir(h.name(p)), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(h.name(p), []byte(content), 0o644); err != nil {
		h.t.Fatal(err)
	}
	return h.node(p)
}

func (h *harness) node(p string) *file {
	f := &file{h: h, id: h.ids.Add(1), tail: -1}
	f.path.Store(&p)
	return f
}

func (f *file) before(op event.Op, cancel <-chan struct{}) {
	f.h.c.Before(fusefs.Change{File: f, Caller: f.h.by, Op: op, Name: f.Path(), Cancel: cancel})
}

// write writes p at off, as the first or a later write between two closes.
func (f *file) write(off int64, p string, cancel <-chan struct{}) {
	f.order.Lock()
	defer f.order.Unlock()
	if !f.dirty && !f.made {
		f.before(event.OpWrite, cancel)
	}
	if st, _ := f.Stat(); !f.dirty || off < f.tail {
		f.tail = min(off, st.Size)
	}
	f.dirty = true
	o, err := os.OpenFile(f.h.name(f.Path()), os.O_WRONLY|os.O_CREATE, 0o644)
	if err == nil {
		_, err = o.WriteAt([]byte(p), off)
		o.Close()
	}
	if err != nil {
		f.h.t.Error(err)
	}
}

// replace truncates the file and writes to it, as a shell does for "> file".
func (f *file) replace(p string) {
	f.order.Lock()
	defer f.order.Unlock()
	if !f.dirty && !f.made {
		f.before(event.OpTruncate, nil)
	}
	f.dirty, f.tail = true, 0
	if err := os.WriteFile(f.h.name(f.Path()), []byte(p), 0o644); err != nil {
		f.h.t.Error(err)
	}
}

func (f *file) close() {
	f.order.Lock()
	defer f.order.Unlock()
	st, err := f.Stat()
	if err != nil {
		f.h.t.Error(err)
	}
	op := event.OpWrite
	if f.made {
		op = event.OpCreate
	}
	f.dirty, f.made = false, false
	f.h.c.Closed(fusefs.Closed{File: f, Caller: f.h.by, Writer: f.h.by, Op: op, Stat: st, TailFrom: f.tail, Time: time.Now()})
}

// create makes a file that is written and closed.
func (h *harness) create(p, content string) *file {
	h.t.Helper()
	f := h.file(p, content)
	f.made, f.tail = true, 0
	f.close()
	return f
}

func (f *file) unlink() {
	f.order.Lock()
	defer f.order.Unlock()
	p := f.Path()
	st, _ := f.Stat()
	f.before(event.OpUnlink, nil)
	f.names.Lock()
	if err := os.Remove(f.h.name(p)); err != nil {
		f.h.t.Error(err)
	}
	if st.Nlink <= 1 {
		none := ""
		f.path.Store(&none)
	}
	f.names.Unlock()
	cl := f.h.c.Class(p, false)
	f.h.c.Done(fusefs.Event{Op: event.OpUnlink, File: f, Caller: f.h.by, Path: p, Stat: st, Class: cl, Class2: cl, Time: time.Now()})
}

// rename renames f to p. old is the file that had this name, or nil.
func (f *file) rename(p string, old *file) {
	f.order.Lock()
	defer f.order.Unlock()
	from := f.Path()
	e := fusefs.Event{Op: event.OpRename, File: f, Caller: f.h.by, Path: from, Path2: p}
	if old != nil {
		old.order.Lock()
		defer old.order.Unlock()
		old.before(event.OpRename, nil)
		e.Replaced = old
	}
	if err := os.MkdirAll(filepath.Dir(f.h.name(p)), 0o755); err != nil {
		f.h.t.Error(err)
	}
	f.names.Lock()
	if old != nil {
		old.names.Lock()
	}
	if err := os.Rename(f.h.name(from), f.h.name(p)); err != nil {
		f.h.t.Error(err)
	}
	if old != nil {
		none := ""
		old.path.Store(&none)
		old.names.Unlock()
	}
	f.path.Store(&p)
	f.names.Unlock()
	e.Stat, _ = f.Stat()
	e.Class, e.Class2, e.Time = f.h.c.Class(from, e.Stat.IsDir()), f.h.c.Class(p, e.Stat.IsDir()), time.Now()
	if e.Class == ignore.Excluded {
		e.Class = e.Class2
	}
	f.h.c.Done(e)
}

// entry is one record of the log, reduced to what tests compare.
type entry struct {
	*spool.Record
	content string
	missing bool
}

// log ends capture and returns all records, with tails joined to the contents that they continue.
func (h *harness) log() []entry {
	h.t.Helper()
	h.stop()
	return readLog(h.t, h.dir)
}

func readLog(t testing.TB, dir string) []entry {
	t.Helper()
	r, err := spool.OpenReader(dir, spool.Position{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	j := spool.NewJoiner(r)
	last := map[uint64]string{}
	var all []entry
	for {
		x, ok, err := j.TryNext()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return all
		}
		e := entry{Record: x.Record, missing: x.Record.Kind == spool.KindVersion && x.Record.HasContent && !x.HasContent}
		if x.Err != nil {
			t.Fatal(x.Err)
		}
		if x.HasContent && x.Record.Kind != spool.KindContent {
			e.content = string(x.Content)
			if x.Record.TailFrom > 0 {
				base := last[x.Record.Node]
				if int64(len(base)) < x.Record.TailFrom {
					t.Fatalf("record %d has a tail from %d, its base has %d bytes", x.Record.Seq, x.Record.TailFrom, len(base))
				}
				e.content = base[:x.Record.TailFrom] + e.content
			}
			if int64(len(e.content)) != x.Record.Stat.Size {
				t.Fatalf("record %d: %d bytes of content, size %d", x.Record.Seq, len(e.content), x.Record.Stat.Size)
			}
			last[x.Record.Node] = e.content
		}
		all = append(all, e)
	}
}

// versions returns the contents in the log under a path, in order.
func versions(log []entry, p string) (all []string) {
	for _, e := range log {
		if e.Kind == spool.KindVersion && e.HasContent && !e.missing && (e.Path == p && e.Path2 == "" || e.Path2 == p) {
			all = append(all, e.content)
		}
	}
	return all
}

func gaps(log []entry) (all []string) {
	for _, e := range log {
		if e.Kind == spool.KindGap {
			all = append(all, e.Path+": "+e.Reason)
		}
	}
	return all
}

func short(list []string) string {
	var b bytes.Buffer
	for _, s := range list {
		if len(s) > 20 {
			s = fmt.Sprintf("%s…%d", s[:12], len(s))
		}
		fmt.Fprintf(&b, "%q ", s)
	}
	return b.String()
}

func wantVersions(t *testing.T, log []entry, p string, want ...string) {
	t.Helper()
	got := versions(log, p)
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			from := max(i-1, 0)
			t.Errorf("%s: version %d of %d, want %d: the log has %s, want %s", p, i, len(got), len(want),
				short(got[min(from, len(got)):min(i+2, len(got))]), short(want[min(from, len(want)):min(i+2, len(want))]))
			return
		}
	}
}

func wantNoGaps(t *testing.T, log []entry) {
	t.Helper()
	if g := gaps(log); len(g) != 0 {
		t.Errorf("%d gaps, the first: %q", len(g), g[0])
	}
}
