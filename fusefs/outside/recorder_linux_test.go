//go:build linux && (amd64 || arm64)

package outside

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"cachebro/fusefs"
	"cachebro/store/leaf/event"
	"cachebro/store/leaf/limits"
	"cachebro/store/leaf/notifier"
	"cachebro/store/leaf/spool"
	"cachebro/store/wire"

	"golang.org/x/sys/unix"
)

// place is a directory that belongs to no project, with a user's state and a Recorder. Its test
// runs on one thread, because the recorder distinguishes the threads that make calls.
type place struct {
	t      *testing.T
	dir    string
	paths  wire.Paths
	r      *Recorder
	root   string // the root of the history that the method told reads
	theirs bool   // the calls do not belong to a plan
	pid    int    // the process that makes the calls; 0 means this thread
}

func newPlace(t *testing.T) *place {
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	home := t.TempDir()
	p := &place{t: t, dir: filepath.Join(home, "work"), root: wire.OutsideRoot, paths: wire.Paths{Home: home, StateHome: filepath.Join(home, "state"), RuntimeDir: filepath.Join(home, "run")}}
	if err := os.Mkdir(p.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	p.start()
	return p
}

func (p *place) start() {
	p.t.Helper()
	var err error
	p.r, err = New(Options{Paths: p.paths, Places: NewPlaces(p.paths.Home, func(string) string { return "" }), Logger: slog.New(slog.DiscardHandler), OnRecord: func(string) {}})
	if err != nil {
		p.t.Fatal(err)
	}
}

// kill leaves everything as it is after a kill of the recorder: only the locks are released.
func (p *place) kill() {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	for _, t := range p.r.tracks {
		t.drop()
	}
	if err := p.r.journal.w.Close(); err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(p.dir, name)
}

func (p *place) write(name, content string) {
	p.t.Helper()
	if err := os.WriteFile(p.path(name), []byte(content), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// see shows the recorder a call on one or two names of files.
func (p *place) see(nr int, args [6]uint64, names ...string) {
	p.t.Helper()
	c := notifier.Calls[uint32(nr)]
	memory := map[uint64][]byte{}
	for i, arg := range []int8{c.Path, c.Path2} {
		if i < len(names) {
			args[arg] = uint64(i+1) << 16
			memory[args[arg]] = append([]byte(p.path(names[i])), 0)
		}
	}
	n := &notifier.Notice{PID: uint32(cmp.Or(p.pid, unix.Gettid())), NR: int32(nr), Arch: notifier.AuditArch, Args: args}
	n.Read = func(_ uint32, addr uint64, buf []byte) bool {
		clear(buf)
		return copy(buf, memory[addr]) > 0
	}
	if examined, _ := p.r.see(n, origin{began: time.Now(), ours: !p.theirs}); !examined {
		p.t.Fatalf("call %d on %v is not seen", nr, names)
	}
}

func (p *place) unlink(name string) { p.see(unix.SYS_UNLINKAT, [6]uint64{at()}, name) }

func (p *place) open(name string, flags int) {
	p.see(unix.SYS_OPENAT, [6]uint64{at(), 0, uint64(flags)}, name)
}

func at() uint64 { i := int64(unix.AT_FDCWD); return uint64(i) }

// change is a change that was reported to a history, with the names of the file.
type change struct {
	op    event.Op
	names string
}

type told []change

func (all told) sorted() told {
	slices.SortFunc(all, func(a, b change) int { return cmp.Compare(a.op, b.op) })
	return all
}

// each calls fn for each record of the history, in order.
func (p *place) each(fn func(*spool.Reader, *spool.Record)) {
	p.t.Helper()
	state, err := p.paths.State(p.root)
	if err != nil {
		p.t.Fatal(err)
	}
	r, err := spool.OpenReader(wire.SpoolDir(state), spool.Position{})
	if err != nil {
		p.t.Fatal(err)
	}
	defer r.Close()
	for {
		rec, err := r.TryNext()
		if err != nil {
			p.t.Fatal(err)
		}
		if rec == nil {
			return
		}
		fn(r, rec)
	}
}

func (p *place) content(r *spool.Reader, rec *spool.Record) string {
	p.t.Helper()
	b, err := r.Content(rec)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(b)
}

// told returns the changes that were reported to the history, except baselines, and the contents in
// the history.
func (p *place) told() (changes told, contents map[string]bool) {
	p.t.Helper()
	contents = map[string]bool{}
	p.each(func(r *spool.Reader, rec *spool.Record) {
		switch rel := filepath.Base(rec.Path); {
		case rec.Kind == spool.KindContent && rec.Len > 0:
			contents[p.content(r, rec)] = true
		case rec.Kind == spool.KindVersion && rec.Op != event.OpBaseline:
			if rec.Path2 != "" {
				rel += " " + filepath.Base(rec.Path2)
			}
			if rec.PID != uint32(os.Getpid()) {
				rel += " by nobody"
			}
			changes = append(changes, change{rec.Op, rel})
		}
	})
	return changes.sorted(), contents
}

// firstKeptBy returns the operation of the first version that has a content.
func (p *place) firstKeptBy(content string) (op event.Op) {
	p.t.Helper()
	ops := map[uint64]event.Op{}
	p.each(func(r *spool.Reader, rec *spool.Record) {
		switch {
		case rec.Kind == spool.KindVersion:
			ops[rec.Seq] = rec.Op
		case rec.Kind == spool.KindContent && rec.Len > 0 && op == 0 && p.content(r, rec) == content:
			op = ops[rec.For]
		}
	})
	return op
}

// TestKilled: a recorder is killed after it has let calls through. The next recorder reports these
// calls, each of them once, whether or not the killed one had already reported them.
func TestKilled(t *testing.T) {
	for _, settled := range []bool{false, true} {
		p := newPlace(t)
		for _, name := range []string{"removed", "written", "mode", "moved", "replaced"} {
			p.write(name, "was "+name)
		}
		carriedOut := func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		}
		p.unlink("removed")
		carriedOut(os.Remove(p.path("removed")))
		p.open("written", unix.O_WRONLY|unix.O_TRUNC)
		p.write("written", "is written")
		p.see(unix.SYS_FCHMODAT, [6]uint64{at(), 0, 0o600}, "mode")
		carriedOut(os.Chmod(p.path("mode"), 0o600))
		p.open("made", unix.O_WRONLY|unix.O_CREAT)
		p.write("made", "is made")
		p.see(unix.SYS_RENAMEAT2, [6]uint64{at(), 0, at()}, "moved", "replaced")
		carriedOut(os.Rename(p.path("moved"), p.path("replaced")))
		if settled { // the calls are reported, but the journal does not say so yet
			p.r.Settle()
		}
		p.kill()
		p.start()
		p.r.Settle()
		if err := p.r.Close(); err != nil {
			t.Fatal(err)
		}
		changes, contents := p.told()
		if settled { // a change that was reported without its content may be reported again
			changes = slices.Compact(changes)
		}
		want := told{{event.OpUnlink, "removed"}, {event.OpWrite, "written"}, {event.OpChmod, "mode"}, {event.OpCreate, "made"}, {event.OpRename, "moved replaced"}}.sorted()
		if !slices.Equal(changes, want) {
			t.Errorf("settled %v: reported %v, want %v", settled, changes, want)
		}
		for _, content := range []string{"was removed", "was written", "was replaced", "is written", "is made"} {
			if !contents[content] {
				t.Errorf("settled %v: %q is not kept", settled, content)
			}
		}
		if _, err := os.Stat(p.r.journal.dir); !os.IsNotExist(err) {
			t.Errorf("settled %v: the journal is left: %v", settled, err)
		}
	}
}

// project makes the place a project that has an excluded directory.
func (p *place) project() {
	p.t.Helper()
	p.root, p.r.comm = p.dir, "" // no caller counts as this program
	if _, err := p.paths.MakeState(p.dir); err != nil {
		p.t.Fatal(err)
	}
	p.write(".gitignore", "__pycache__\n")
	if err := os.Mkdir(p.path("__pycache__"), 0o755); err != nil {
		p.t.Fatal(err)
	}
}

// TestExcludedNames: changes that a command makes in an excluded directory are not recorded, unless
// the file has another name outside of that directory. A chmod of a file with another name used to
// be lost.
func TestExcludedNames(t *testing.T) {
	p := newPlace(t)
	p.project()
	p.theirs = true
	p.write("__pycache__/alone", "is excluded")
	p.write("kept", "has two names")
	if err := os.Link(p.path("kept"), p.path("__pycache__/other")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"__pycache__/alone", "__pycache__/other"} {
		p.see(unix.SYS_FCHMODAT, [6]uint64{at(), 0, 0o600}, name)
		if err := os.Chmod(p.path(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p.r.Settle()
	if err := p.r.Close(); err != nil {
		t.Fatal(err)
	}
	changes, _ := p.told()
	if want := (told{{event.OpChmod, "kept"}}); !slices.Equal(changes, want) {
		t.Errorf("reported %v, want %v", changes, want)
	}
}

// TestPlanInExcluded: the changes that one of cachebro's plans makes in an excluded directory are
// reported. They used to be missing, so a redo did not find them.
func TestPlanInExcluded(t *testing.T) {
	p := newPlace(t)
	p.project()
	for _, name := range []string{"written", "mode"} {
		p.write("__pycache__/"+name, "was")
	}
	p.open("__pycache__/written", unix.O_WRONLY|unix.O_TRUNC)
	p.write("__pycache__/written", "is written")
	p.open("__pycache__/made", unix.O_WRONLY|unix.O_CREAT)
	p.write("__pycache__/made", "is made")
	p.see(unix.SYS_FCHMODAT, [6]uint64{at(), 0, 0o600}, "__pycache__/mode")
	if err := os.Chmod(p.path("__pycache__/mode"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.r.Settle()
	if err := p.r.Close(); err != nil {
		t.Fatal(err)
	}
	changes, _ := p.told()
	if want := (told{{event.OpCreate, "made"}, {event.OpWrite, "written"}, {event.OpChmod, "mode"}}).sorted(); !slices.Equal(changes, want) {
		t.Errorf("reported %v, want %v", changes, want)
	}
}

// TestIgnoredBelowMoved: when a directory moves, an ignored file in it is reported under the name
// from before the move. Otherwise, if the file later got a name that is not ignored, the history
// would show it as made under the name from after the move.
func TestIgnoredBelowMoved(t *testing.T) {
	p := newPlace(t)
	p.project()
	p.theirs = true
	p.write(".gitignore", "*.log\n")
	if err := os.Mkdir(p.path("first"), 0o755); err != nil {
		t.Fatal(err)
	}
	p.write("first/a.log", "is ignored")
	p.see(unix.SYS_RENAMEAT2, [6]uint64{at(), 0, at()}, "first", "second")
	if err := os.Rename(p.path("first"), p.path("second")); err != nil {
		t.Fatal(err)
	}
	p.r.Settle()
	if err := p.r.Close(); err != nil {
		t.Fatal(err)
	}
	state, err := p.paths.State(p.dir)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	err = readSpool(wire.SpoolDir(state), func(r *spool.Record) {
		found = found || r.Op == event.OpBaseline && r.Path == "first/a.log"
	})
	if err != nil || !found {
		t.Errorf("the file is not reported: %v", err)
	}
}

// TestNotCarriedOutYet: when all touched paths are examined, a call that was let through may not
// have run yet. Its effect must be reported later. A file that sed had made used to be taken for
// one that existed before.
func TestNotCarriedOutYet(t *testing.T) {
	p := newPlace(t)
	p.write("written", "was")
	p.open("made", unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
	p.open("written", unix.O_WRONLY)
	p.r.Settle()
	p.write("made", "is made")
	p.write("written", "is written")
	p.r.Settle()
	if err := p.r.Close(); err != nil {
		t.Fatal(err)
	}
	changes, _ := p.told()
	if want := (told{{event.OpCreate, "made"}, {event.OpWrite, "written"}}).sorted(); !slices.Equal(changes, want) {
		t.Errorf("reported %v, want %v", changes, want)
	}
}

// TestWrittenByAnotherName: a write under one name of a file is reported before the next write
// under another name.
func TestWrittenByAnotherName(t *testing.T) {
	p := newPlace(t)
	p.write("one", "first")
	if err := os.Link(p.path("one"), p.path("two")); err != nil {
		t.Fatal(err)
	}
	p.open("one", unix.O_WRONLY|unix.O_TRUNC)
	p.write("one", "second")
	p.open("two", unix.O_WRONLY|unix.O_TRUNC)
	p.write("two", "third")
	p.open("one", unix.O_WRONLY|unix.O_APPEND)
	if err := p.r.Close(); err != nil {
		t.Fatal(err)
	}
	changes, contents := p.told()
	for _, c := range changes {
		if c.op == event.OpOutside {
			t.Errorf("its own writes are somebody else's: %v", changes)
		}
	}
	for _, content := range []string{"first", "second", "third"} {
		if !contents[content] {
			t.Errorf("%q is not kept", content)
		}
	}
}

// descriptor opens a file or directory of the place for reading until the test ends.
func (p *place) descriptor(name string) *os.File {
	p.t.Helper()
	f, err := os.Open(p.path(name))
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { f.Close() })
	return f
}

// TestThroughProc: a link in /proc to an open file leads to that file, and a link to a directory is
// part of a path. A hard link made through such a link used to be taken for a separate file, and
// was not undone.
func TestThroughProc(t *testing.T) {
	p := newPlace(t)
	p.write("one", "first")
	f := p.descriptor("one")
	dir := p.descriptor(".")
	fd := fmt.Sprintf("/proc/self/fd/%d", f.Fd())
	p.see(unix.SYS_LINKAT, [6]uint64{at(), 0, at(), 0, unix.AT_SYMLINK_FOLLOW}, fd, "two")
	if err := unix.Linkat(unix.AT_FDCWD, fd, unix.AT_FDCWD, p.path("two"), unix.AT_SYMLINK_FOLLOW); err != nil {
		t.Fatal(err)
	}
	p.open(fmt.Sprintf("/proc/self/fd/%d/made", dir.Fd()), unix.O_WRONLY|unix.O_CREAT)
	p.write("made", "is made")
	if err := p.r.Close(); err != nil {
		t.Fatal(err)
	}
	changes, _ := p.told()
	if want := (told{{event.OpCreate, "made"}, {event.OpLink, "one two"}}).sorted(); !slices.Equal(changes, want) {
		t.Errorf("reported %v, want %v", changes, want)
	}
}

// TestInRoot: for openat2(2) with RESOLVE_IN_ROOT, the directory is the root of the path and of links in
// it. The recorder used to look for the file below the real root, so nothing was saved.
func TestInRoot(t *testing.T) {
	p := newPlace(t)
	if err := errors.Join(os.Mkdir(p.path("dir"), 0o755), os.Symlink("/dir", p.path("link"))); err != nil {
		t.Fatal(err)
	}
	root := p.descriptor(".")
	for i, name := range []string{"/dir/one", "link/two", "../dir/three"} {
		own := "dir/" + filepath.Base(name)
		p.write(own, fmt.Sprint("content ", i))
		how := binary.NativeEndian.AppendUint64(nil, unix.O_WRONLY|unix.O_TRUNC)
		how = binary.NativeEndian.AppendUint64(how, 0)
		how = binary.NativeEndian.AppendUint64(how, unix.RESOLVE_IN_ROOT)
		memory := map[uint64][]byte{1 << 16: append([]byte(name), 0), 2 << 16: how}
		n := &notifier.Notice{PID: uint32(unix.Gettid()), NR: unix.SYS_OPENAT2, Arch: notifier.AuditArch, Args: [6]uint64{uint64(root.Fd()), 1 << 16, 2 << 16, 24}}
		n.Read = func(_ uint32, addr uint64, buf []byte) bool {
			clear(buf)
			return copy(buf, memory[addr]) > 0
		}
		if examined, _ := p.r.see(n, origin{began: time.Now(), ours: true}); !examined {
			t.Errorf("the call on %s is not seen", name)
		}
		p.write(own, "new")
	}
	if err := p.r.Close(); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if _, contents := p.told(); !contents[fmt.Sprint("content ", i)] {
			t.Errorf("content %d is not kept", i)
		}
	}
}

// TestNamedLikeRemoved: the kernel adds " (deleted)" to the path of a descriptor whose name was removed, but
// the name of a directory may itself end like that. What was made in such a directory through a symbolic
// link used to be missing.
func TestNamedLikeRemoved(t *testing.T) {
	p := newPlace(t)
	if err := errors.Join(os.Mkdir(p.path("dir (deleted)"), 0o755), os.Symlink("dir (deleted)", p.path("link"))); err != nil {
		t.Fatal(err)
	}
	p.open("link/made", unix.O_WRONLY|unix.O_CREAT)
	p.write("link/made", "is made")
	if err := p.r.Close(); err != nil {
		t.Fatal(err)
	}
	if changes, _ := p.told(); !slices.Equal(changes, told{{event.OpCreate, "made"}}) {
		t.Errorf("reported %v", changes)
	}
}

// TestLongPath: a call on a path that is too long for the recorder counts as one that it could not
// examine. Such calls used to pass without notice.
func TestLongPath(t *testing.T) {
	p := newPlace(t)
	t.Chdir(p.dir)
	name := strings.Repeat("n", 200)
	for range unix.PathMax/len(name) + 2 {
		if err := errors.Join(os.Mkdir(name, 0o755), os.Chdir(name)); err != nil {
			t.Fatal(err)
		}
		n := &notifier.Notice{PID: uint32(unix.Gettid()), NR: unix.SYS_UNLINKAT, Arch: notifier.AuditArch, Args: [6]uint64{at(), 1}}
		n.Read = func(_ uint32, _ uint64, buf []byte) bool {
			clear(buf)
			return copy(buf, "f") > 0
		}
		dir, err := os.Readlink("/proc/self/cwd")
		examined, _ := p.r.see(n, origin{began: time.Now(), ours: true})
		if fits := err == nil && len(dir)+len("/f") < unix.PathMax; examined != fits {
			t.Errorf("a call in a directory whose path has %d bytes is examined: %v", len(dir), examined)
		}
	}
	if err := p.r.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestLinkOfRemovedName: a file is opened, its name is removed, and it is linked again through the
// descriptor. The new name used to be recorded as one that existed before, so an undo did not
// remove it.
func TestLinkOfRemovedName(t *testing.T) {
	p := newPlace(t)
	p.write("one", "first")
	f := p.descriptor("one")
	p.see(unix.SYS_LINKAT, [6]uint64{at(), 0, at()}, "one", "two")
	if err := os.Link(p.path("one"), p.path("two")); err != nil {
		t.Fatal(err)
	}
	p.unlink("one")
	if err := os.Remove(p.path("one")); err != nil {
		t.Fatal(err)
	}
	fd := fmt.Sprintf("/proc/self/fd/%d", f.Fd())
	p.see(unix.SYS_LINKAT, [6]uint64{at(), 0, at(), 0, unix.AT_SYMLINK_FOLLOW}, fd, "three")
	if err := unix.Linkat(unix.AT_FDCWD, fd, unix.AT_FDCWD, p.path("three"), unix.AT_SYMLINK_FOLLOW); err != nil {
		t.Fatal(err)
	}
	if err := p.r.Close(); err != nil {
		t.Fatal(err)
	}
	changes, _ := p.told()
	if want := (told{{event.OpLink, "one two"}, {event.OpLink, "two three"}, {event.OpUnlink, "one"}}).sorted(); !slices.Equal(changes.sorted(), want) {
		t.Errorf("reported %v, want %v", changes, want)
	}
}

// TestAlteredAfterNameIsLost: a file is opened, the name used for that is removed, and the mode is
// changed through the descriptor. The file has another name, but the change used to be missing.
func TestAlteredAfterNameIsLost(t *testing.T) {
	p := newPlace(t)
	p.write("one", "first")
	if err := os.Link(p.path("one"), p.path("two")); err != nil {
		t.Fatal(err)
	}
	f := p.descriptor("one")
	p.unlink("one")
	if err := os.Remove(p.path("one")); err != nil {
		t.Fatal(err)
	}
	p.see(unix.SYS_FCHMOD, [6]uint64{uint64(f.Fd()), 0o600})
	if err := f.Chmod(0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.r.Close(); err != nil {
		t.Fatal(err)
	}
	changes, _ := p.told()
	if want := (told{{event.OpUnlink, "one"}, {event.OpChmod, "two"}}).sorted(); !slices.Equal(changes, want) {
		t.Errorf("reported %v, want %v", changes, want)
	}
}

// TestAlteredWithoutName: the mode or an attribute of a file is changed by a call with an empty name and
// the file's descriptor, or by one of the newer calls for attributes. Such a change used to be missing.
func TestAlteredWithoutName(t *testing.T) {
	p := newPlace(t)
	for _, name := range []string{"one", "two"} {
		p.write(name, "first")
	}
	if err := os.Mkdir(p.path("dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	f := p.descriptor("one")
	p.see(unix.SYS_FCHMODAT2, [6]uint64{uint64(f.Fd()), 0, 0o600, unix.AT_EMPTY_PATH})
	if err := f.Chmod(0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(p.path("dir"))
	p.see(unix.SYS_FCHMODAT2, [6]uint64{at(), 0, 0o700, unix.AT_EMPTY_PATH})
	if err := os.Chmod(".", 0o700); err != nil {
		t.Fatal(err)
	}
	p.see(unix.SYS_SETXATTRAT, [6]uint64{at()}, "two")
	if err := os.Chmod(p.path("two"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.r.Close(); err != nil {
		t.Fatal(err)
	}
	changes, _ := p.told()
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(a.names, b.names) })
	if want := (told{{event.OpChmod, "dir"}, {event.OpChmod, "one"}, {event.OpChmod, "two"}}); !slices.Equal(changes, want) {
		t.Errorf("reported %v, want %v", changes, want)
	}
}

// TestMadeAgainAfterRemoval: a file is opened for writing and soon afterwards removed, and a
// process that is not watched makes it again. The new file used to be attributed to the process
// that had removed the old one. So when an agent ran an undo right after its rm, the undo's changes
// counted as part of the rm's prompt.
func TestMadeAgainAfterRemoval(t *testing.T) {
	p := newPlace(t)
	p.write("one", "first")
	p.open("one", unix.O_WRONLY)
	p.r.Settle()
	p.unlink("one")
	if err := os.Remove(p.path("one")); err != nil {
		t.Fatal(err)
	}
	p.r.Settle()
	p.write("one", "second")
	if err := p.r.Close(); err != nil {
		t.Fatal(err)
	}
	changes, _ := p.told()
	if want := (told{{event.OpUnlink, "one"}}); !slices.Equal(changes, want) {
		t.Errorf("reported %v, want %v", changes, want)
	}
}

// TestFailedCall: a failed call is not reported when another thread later makes a call with the
// same effect. For instance, a directory whose removal had failed used to be reported as removed
// when it was later exchanged with a file.
func TestFailedCall(t *testing.T) {
	p := newPlace(t)
	p.write("one", "first")
	p.unlink("one")
	p.r.ops[0].tid = math.MaxInt32 // a thread that has ended
	p.see(unix.SYS_RENAMEAT2, [6]uint64{at(), 0, at()}, "one", "two")
	if err := os.Rename(p.path("one"), p.path("two")); err != nil {
		t.Fatal(err)
	}
	if err := p.r.Close(); err != nil {
		t.Fatal(err)
	}
	changes, _ := p.told()
	if want := (told{{event.OpRename, "one two"}}); !slices.Equal(changes, want) {
		t.Errorf("reported %v, want %v", changes, want)
	}
}

// On a busy machine, a thread waited for a processor for more than a second after its call was let
// through. The call counted as failed, so its effect was not recorded.
func TestCallThatRunsLate(t *testing.T) {
	p := newPlace(t)
	if err := os.Mkdir(p.path("dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	late := func(name string, run func() error) {
		t.Helper()
		e := p.r.entries[p.path(name)]
		e.when = e.when.Add(-2 * opFor)
		for range 2 {
			p.r.settleQuiet()
		}
		if err := run(); err != nil {
			t.Fatal(err)
		}
	}
	p.see(unix.SYS_FCHMODAT, [6]uint64{at(), 0, 0o700}, "dir")
	late("dir", func() error { return os.Chmod(p.path("dir"), 0o700) })
	p.see(unix.SYS_MKDIRAT, [6]uint64{at(), 0, 0o700}, "new")
	late("new", func() error { return os.Mkdir(p.path("new"), 0o700) })
	p.r.Settle()
	if err := p.r.Close(); err != nil {
		t.Fatal(err)
	}
	changes, _ := p.told()
	if want := (told{{event.OpMkdir, "new"}, {event.OpChmod, "dir"}}).sorted(); !slices.Equal(changes, want) {
		t.Errorf("reported %v, want %v", changes, want)
	}
}

// TestAlteredByAnotherName: a file is written under one name and its mode is changed under another.
// Both changes are reported.
func TestAlteredByAnotherName(t *testing.T) {
	p := newPlace(t)
	p.write("one", "first")
	if err := os.Link(p.path("one"), p.path("two")); err != nil {
		t.Fatal(err)
	}
	p.see(unix.SYS_FCHMODAT, [6]uint64{at(), 0, 0o600}, "two")
	p.open("one", unix.O_WRONLY)
	if err := os.Chmod(p.path("two"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.write("one", "second")
	p.r.Settle()
	if err := p.r.Close(); err != nil {
		t.Fatal(err)
	}
	changes, _ := p.told()
	if !slices.ContainsFunc(changes, func(c change) bool { return c.op == event.OpChmod }) {
		t.Errorf("the mode is missing: %v", changes)
	}
}

// TestAlteredAndWritten: a file's mode is changed and the file is written. The new content is
// reported first. When the chmod was reported first, with the new size, it hid the old content, and
// there was nothing to undo.
func TestAlteredAndWritten(t *testing.T) {
	p := newPlace(t)
	p.write("one", "first")
	p.see(unix.SYS_FCHMODAT, [6]uint64{at(), 0, 0o600}, "one")
	p.open("one", unix.O_WRONLY|unix.O_TRUNC)
	p.write("one", "much longer")
	p.r.Settle()
	if err := p.r.Close(); err != nil {
		t.Fatal(err)
	}
	state, err := p.paths.State(wire.OutsideRoot)
	if err != nil {
		t.Fatal(err)
	}
	var first event.Op
	if err := readSpool(wire.SpoolDir(state), func(r *spool.Record) {
		if first == 0 && r.Kind == spool.KindVersion && r.Stat.Size == int64(len("much longer")) {
			first = r.Op
		}
	}); err != nil {
		t.Fatal(err)
	}
	if first != event.OpWrite {
		t.Errorf("the new size was first reported by a %v", first)
	}
}

// TestFailedByAnotherName: a write under one name fails, and later the mode is changed under
// another name. The write is not reported. The change of mode used to be taken for the write, and
// attributed to the process that had tried to write.
func TestFailedByAnotherName(t *testing.T) {
	p := newPlace(t)
	p.write("one", "first")
	if err := os.Link(p.path("one"), p.path("two")); err != nil {
		t.Fatal(err)
	}
	p.open("one", unix.O_WRONLY)
	p.see(unix.SYS_FCHMODAT, [6]uint64{at(), 0, 0o600}, "two")
	if err := os.Chmod(p.path("two"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.see(unix.SYS_FCHMODAT, [6]uint64{at(), 0, 0o600}, "two")
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	if e := p.r.entries[p.path("one")]; e.waits || len(e.writers) > 0 {
		t.Errorf("a write by the other name is awaited still: %+v", e)
	}
}

// A file that existed before a tree began is not the tree's temporary file, even if it was made
// only just before. A file that was made later is.
func TestBornBefore(t *testing.T) {
	birth := func(name string) int64 {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		st, ok := lstat(path)
		if !ok {
			t.Fatal("it is missing")
		}
		return st.Birth
	}
	for range 50 {
		before, began := birth("before"), time.Now()
		if before > began.UnixNano() {
			t.Fatalf("made at %d, which is after %d", before, began.UnixNano())
		}
		for since := int64(0); since <= began.UnixNano(); { // until the clock of the file system has moved on
			since = birth("since")
		}
	}
}

// TestExchangedWithItsDirectory: a file is exchanged with a directory that contains another name of
// the file. The file keeps both names, and a change under one name is not reported as another
// process's change under the other name.
func TestExchangedWithItsDirectory(t *testing.T) {
	p := newPlace(t)
	p.write("one", "first")
	if err := os.Mkdir(p.path("dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(p.path("one"), p.path("dir/two")); err != nil {
		t.Fatal(err)
	}
	p.open("dir/two", unix.O_WRONLY)
	p.see(unix.SYS_RENAMEAT2, [6]uint64{at(), 0, at(), 0, unix.RENAME_EXCHANGE}, "one", "dir")
	if err := unix.Renameat2(unix.AT_FDCWD, p.path("one"), unix.AT_FDCWD, p.path("dir"), unix.RENAME_EXCHANGE); err != nil {
		t.Fatal(err)
	}
	p.r.Settle()
	p.unlink("one/two")
	if err := os.Remove(p.path("one/two")); err != nil {
		t.Fatal(err)
	}
	p.open("dir", unix.O_WRONLY)
	p.write("dir", "second")
	if err := p.r.Close(); err != nil {
		t.Fatal(err)
	}
	changes, _ := p.told()
	want := told{{event.OpExchange, "one dir"}, {event.OpUnlink, "two"}, {event.OpWrite, "dir"}}.sorted()
	changes = slices.DeleteFunc(changes, func(c change) bool { return c == change{event.OpWrite, "two"} || c == change{event.OpWrite, "one"} })
	if !slices.Equal(changes, want) {
		t.Errorf("reported %v, want %v", changes, want)
	}
}

// TestMuchAtOnce: a command removes a file while more content waits in the spool than a mount's
// spool may hold. When a command removed 33 files of one gigabyte in total, the contents of five
// used to be lost, although the disk had room.
func TestMuchAtOnce(t *testing.T) {
	p := newPlace(t)
	if err := p.r.Close(); err != nil {
		t.Fatal(err)
	}
	state, err := p.paths.State(wire.OutsideRoot)
	if err != nil {
		t.Fatal(err)
	}
	waiting := filepath.Join(wire.SpoolDir(state), "content-00000099.dat")
	if err := os.WriteFile(waiting, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(waiting, limits.Spool+1); err != nil { // a sparse file
		t.Fatal(err)
	}
	p.start()
	p.write("removed", "was")
	p.unlink("removed")
	if err := os.Remove(p.path("removed")); err != nil {
		t.Fatal(err)
	}
	if err := p.r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, contents := p.told(); !contents["was"] {
		t.Errorf("kept: %v", contents)
	}
}

// TestWrittenAfterRename: bytes that are written through a descriptor after the file was renamed
// are reported as a separate write, although no reported call announces that write.
func TestWrittenAfterRename(t *testing.T) {
	p := newPlace(t)
	p.write("old", "first")
	p.open("old", unix.O_RDWR)
	f, err := os.OpenFile(p.path("old"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	write := func(content string) {
		t.Helper()
		if _, err := f.WriteAt([]byte(content), 0); err != nil {
			t.Fatal(err)
		}
	}
	write("was")
	p.see(unix.SYS_RENAMEAT2, [6]uint64{at(), 0, at()}, "old", "new")
	if err := os.Rename(p.path("old"), p.path("new")); err != nil {
		t.Fatal(err)
	}
	write("is written")
	p.r.Settle()
	if err := p.r.Close(); err != nil {
		t.Fatal(err)
	}
	changes, contents := p.told()
	changes = slices.Compact(changes) // the content at the time of the rename may be reported twice
	if want := (told{{event.OpRename, "old new"}, {event.OpWrite, "old"}, {event.OpWrite, "new"}}).sorted(); !slices.Equal(changes, want) {
		t.Errorf("reported %v, want %v", changes, want)
	}
	if !contents["wasst"] || !contents["is written"] {
		t.Errorf("kept: %v", contents)
	}
}

// TestClosed: the recorder does not look for the descriptors of a file again after all that opened it
// have closed it. But a file that was only about to be opened has to be looked at again, however
// long the call takes.
func TestClosed(t *testing.T) {
	p := newPlace(t)
	p.write("closed", "was")
	p.open("closed", unix.O_RDWR)
	p.write("closed", "is written")
	p.write("old", "first")
	p.open("old", unix.O_RDWR)
	p.r.entries[p.path("old")].when = time.Now().Add(-2 * opFor)
	p.r.Settle()
	if closed, old := p.r.entries[p.path("closed")], p.r.entries[p.path("old")]; !closed.closed || old.closed {
		t.Errorf("the files are taken for closed: %v, %v", closed.closed, old.closed)
	}
	f, err := os.OpenFile(p.path("old"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p.see(unix.SYS_RENAMEAT2, [6]uint64{at(), 0, at()}, "old", "new")
	if err := os.Rename(p.path("old"), p.path("new")); err != nil {
		t.Fatal(err)
	}
	p.r.Settle()
	if _, err := f.WriteAt([]byte("later"), 0); err != nil {
		t.Fatal(err)
	}
	if err := p.r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, contents := p.told(); !contents["is written"] || !contents["later"] {
		t.Errorf("kept: %v", contents)
	}
}

// TestWrittenAfterNewName: bytes that are written through a descriptor after the file got another
// name are reported as a write. The recorder noticed the bytes only when it reported the link or
// the exchange, and used to report them as older content without an author. So an undo took back
// the name but not the content. The same happened if another name of the file was linked or renamed.
func TestWrittenAfterNewName(t *testing.T) {
	for name, rename := range map[string]func(p *place) error{
		"link": func(p *place) error {
			p.see(unix.SYS_LINKAT, [6]uint64{at(), 0, at()}, "one", "two")
			return os.Link(p.path("one"), p.path("two"))
		},
		"exchange": func(p *place) error {
			p.see(unix.SYS_RENAMEAT2, [6]uint64{at(), 0, at(), 0, unix.RENAME_EXCHANGE}, "other", "one")
			return unix.Renameat2(unix.AT_FDCWD, p.path("other"), unix.AT_FDCWD, p.path("one"), unix.RENAME_EXCHANGE)
		},
		"link of another name": func(p *place) error {
			p.see(unix.SYS_LINKAT, [6]uint64{at(), 0, at()}, "link", "two")
			return os.Link(p.path("link"), p.path("two"))
		},
		"rename of another name": func(p *place) error {
			p.see(unix.SYS_RENAMEAT2, [6]uint64{at(), 0, at()}, "link", "two")
			return os.Rename(p.path("link"), p.path("two"))
		},
		"exchange of another name": func(p *place) error {
			p.see(unix.SYS_RENAMEAT2, [6]uint64{at(), 0, at(), 0, unix.RENAME_EXCHANGE}, "other", "link")
			return unix.Renameat2(unix.AT_FDCWD, p.path("other"), unix.AT_FDCWD, p.path("link"), unix.RENAME_EXCHANGE)
		},
	} {
		p := newPlace(t)
		p.write("one", "first")
		if err := os.Link(p.path("one"), p.path("link")); err != nil {
			t.Fatal(err)
		}
		p.write("other", "another")
		f := p.opened("one")
		if err := rename(p); err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte("is written"), 0); err != nil {
			t.Fatal(err)
		}
		if err := p.r.Close(); err != nil {
			t.Fatal(err)
		}
		if op := p.firstKeptBy("is written"); op != event.OpWrite {
			changes, _ := p.told()
			t.Errorf("%s: what was written is first kept by operation %v; reported %v", name, op, changes)
		}
	}
}

// TestWrittenAfterNameIsLost: a process opens a file, the name used for that is removed or
// replaced, and the process writes through the descriptor. The write is recorded under another name
// of the file. It used to be missed.
func TestWrittenAfterNameIsLost(t *testing.T) {
	for name, lose := range map[string]func(p *place){
		"removed": func(p *place) {
			p.unlink("one")
			os.Remove(p.path("one"))
		},
		"replaced": func(p *place) {
			p.write("third", "x")
			p.see(unix.SYS_RENAMEAT2, [6]uint64{at(), 0, at()}, "third", "one")
			os.Rename(p.path("third"), p.path("one"))
		},
	} {
		p := newPlace(t)
		p.write("one", "first")
		if err := os.Link(p.path("one"), p.path("two")); err != nil {
			t.Fatal(err)
		}
		f := p.opened("one")
		lose(p)
		p.r.Settle()
		if _, err := f.WriteAt([]byte("is written"), 0); err != nil {
			t.Fatal(err)
		}
		if err := p.r.Close(); err != nil {
			t.Fatal(err)
		}
		changes, contents := p.told()
		if !slices.Contains(changes, change{event.OpWrite, "two"}) || !contents["first"] || !contents["is written"] {
			t.Errorf("%s: reported %v, kept %v", name, changes, contents)
		}
	}
}

// opened opens a file for writing and leaves it open.
func (p *place) opened(name string) *os.File {
	p.t.Helper()
	p.open(name, unix.O_RDWR)
	f, err := os.OpenFile(p.path(name), os.O_RDWR, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { f.Close() })
	return f
}

// TestWrittenBesideOthers: a process has a file open and writes to it after another process has
// changed the mode, renamed the file, or opened it too. The recorder used to examine only the open
// files of the last caller, so the first process's later writes were not recorded.
func TestWrittenBesideOthers(t *testing.T) {
	for name, act := range map[string]func(p *place) string{
		"chmod": func(p *place) string {
			p.see(unix.SYS_FCHMODAT, [6]uint64{at(), 0, 0o600}, "one")
			os.Chmod(p.path("one"), 0o600)
			return "one"
		},
		"rename": func(p *place) string {
			p.see(unix.SYS_RENAMEAT2, [6]uint64{at(), 0, at()}, "one", "two")
			os.Rename(p.path("one"), p.path("two"))
			return "two"
		},
		"open": func(p *place) string {
			p.open("one", unix.O_WRONLY)
			return "one"
		},
	} {
		p := newPlace(t)
		p.write("one", "first")
		f := p.opened("one")
		other := exec.Command("sleep", "60")
		if err := other.Start(); err != nil {
			t.Fatal(err)
		}
		p.pid = other.Process.Pid
		at := act(p)
		if err := errors.Join(other.Process.Kill(), other.Wait()); err == nil {
			t.Fatal("it ended by itself")
		}
		p.pid = 0
		p.r.Settle()
		if _, err := f.WriteAt([]byte("is written"), 0); err != nil {
			t.Fatal(err)
		}
		if err := p.r.Close(); err != nil {
			t.Fatal(err)
		}
		changes, contents := p.told()
		written := slices.ContainsFunc(changes, func(c change) bool { return c.op == event.OpWrite && strings.HasPrefix(c.names, at) })
		if !written || !contents["is written"] {
			t.Errorf("%s: reported %v, kept %v", name, changes, contents)
		}
		state, err := p.paths.State(p.root)
		if err != nil {
			t.Fatal(err)
		}
		by := uint32(0) // the process that changed the mode, according to the history
		if err := readSpool(wire.SpoolDir(state), func(r *spool.Record) {
			if r.Kind == spool.KindVersion && by == 0 && r.Stat.Mode&0o777 == 0o600 {
				by = r.PID
			}
		}); err != nil {
			t.Fatal(err)
		}
		if name == "chmod" && by != uint32(other.Process.Pid) {
			t.Errorf("the mode was changed by %d, not by %d", by, other.Process.Pid)
		}
	}
}

// TestInherited: a process opens a file for writing and closes it, but a process to which it passed the
// descriptor still writes to the file, as a program does whose output another one directs to a file. Or
// the file is only mapped. The later writes used to count as those of somebody else. Or the file is open
// and mapped. What was then written through the mapping used to be missing.
func TestInherited(t *testing.T) {
	for name, start := range map[string]func(*place, *os.File) (write func()){
		"descriptor": func(p *place, f *os.File) func() {
			child := exec.Command("sh", "-c", "read -r x; printf later")
			child.Stdout = f
			gate, err := child.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			startFiltered(t, child)
			return func() {
				if err := errors.Join(gate.Close(), child.Wait()); err != nil {
					t.Fatal(err)
				}
			}
		},
		"descriptor and mapping": func(p *place, f *os.File) func() {
			fd, err := unix.Dup(int(f.Fd()))
			if err != nil {
				t.Fatal(err)
			}
			m, err := unix.Mmap(fd, 0, 5, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			if err != nil {
				t.Fatal(err)
			}
			m[0] = 'F'
			return func() {
				p.r.Settle()
				copy(m, "later")
				if err := errors.Join(unix.Munmap(m), unix.Close(fd)); err != nil {
					t.Fatal(err)
				}
			}
		},
		"mapping": func(p *place, f *os.File) func() {
			p.r.opened.filters = -1 // so that this process counts as one of a tree
			m, err := unix.Mmap(int(f.Fd()), 0, 5, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			if err != nil {
				t.Fatal(err)
			}
			m[0] = 'F' // from now on, the kernel does not notice what is written to the page
			return func() {
				p.r.entries[p.path("one")].when = time.Now().Add(-2 * opFor)
				p.r.Settle()
				copy(m, "later")
				if err := unix.Munmap(m); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		p := newPlace(t)
		rest := strings.Repeat("x", fusefs.TailMin) // a shorter file is always read as a whole
		p.write("one", "first"+rest)
		f := p.opened("one")
		write := start(p, f)
		f.Close()
		p.r.entries[p.path("one")].when = time.Now().Add(-2 * opFor)
		p.r.Settle()
		if p.r.entries[p.path("one")].closed {
			t.Errorf("%s: the file is taken for closed", name)
		}
		write()
		if err := p.r.Close(); err != nil {
			t.Fatal(err)
		}
		if changes, contents := p.told(); !contents["later"+rest] || !slices.Contains(changes, change{event.OpWrite, "one"}) {
			t.Errorf("%s: reported %v, kept %d contents", name, changes, len(contents))
		}
	}
}

// startFiltered starts a command whose processes have one seccomp filter more than this process, as
// those of a tree have.
func startFiltered(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	started := make(chan error)
	onThread(func() {
		prog := unix.SockFprog{Len: 1, Filter: &notifier.Allow}
		err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		if err == nil {
			err = unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog)), 0, 0)
		}
		if err == nil {
			err = cmd.Start()
		}
		started <- err
	})
	if err := <-started; err != nil {
		t.Fatal(err)
	}
}

// TestOpening: a file may be examined while it is being opened, before the writer's descriptor
// exists. Such a file was once reported as empty, and not examined again because no process had it
// open.
func TestOpening(t *testing.T) {
	p := newPlace(t)
	p.write("truncated", "was")
	p.open("made", unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
	p.write("made", "")
	p.r.Settle()
	p.write("made", "is made")
	p.open("truncated", unix.O_WRONLY|unix.O_TRUNC)
	p.write("truncated", "")
	p.r.Settle()
	p.write("truncated", "is written")
	if err := p.r.Close(); err != nil {
		t.Fatal(err)
	}
	_, contents := p.told()
	for _, want := range []string{"is made", "was", "is written"} {
		if !contents[want] {
			t.Errorf("%q is not kept: %v", want, contents)
		}
	}
}

// TestDirectoryMadeAgain: a watched command removes a directory, and an unwatched process makes it
// again. Directories outside of projects are never scanned. So the recorder must report the new
// directory before the files in it. Otherwise a plan would assume that these files were lost with
// the first directory.
func TestDirectoryMadeAgain(t *testing.T) {
	p := newPlace(t)
	for range 2 {
		if err := os.MkdirAll(p.path("d/sub"), 0o755); err != nil {
			t.Fatal(err)
		}
		p.write("d/sub/f", "x")
		p.unlink("d/sub/f")
		os.Remove(p.path("d/sub/f"))
		for _, dir := range []string{"d/sub", "d"} {
			p.see(unix.SYS_UNLINKAT, [6]uint64{at(), 0, unix.AT_REMOVEDIR}, dir)
			os.Remove(p.path(dir))
		}
		p.r.Settle()
	}
	p.kill()
	state, err := p.paths.State(p.root)
	if err != nil {
		t.Fatal(err)
	}
	known, files := map[string]bool{}, 0
	if err := readSpool(wire.SpoolDir(state), func(rec *spool.Record) {
		name := filepath.Base(rec.Path)
		switch {
		case rec.Kind != spool.KindVersion:
		case rec.Op == event.OpRmdir:
			known[name] = false
		case name == "d" || name == "sub":
			known[name] = true
		case name == "f" && rec.Op == event.OpUnlink:
			if files++; !known["d"] || !known["sub"] {
				t.Errorf("removal %d is in directories of which the history knows only %v", files, known)
			}
		}
	}); err != nil || files != 2 {
		t.Errorf("%d removals: %v", files, err)
	}
}

// TestNewNameInUnknownDirectory: a file is moved or linked into a directory in which nothing has been
// recorded yet. The directory must be recorded first. Its record used to follow, so in the history the
// directory had lost the new name, and an undo left it there.
func TestNewNameInUnknownDirectory(t *testing.T) {
	for name, act := range map[string]func(p *place){
		"move": func(p *place) {
			p.see(unix.SYS_RENAMEAT2, [6]uint64{at(), 0, at()}, "f", "d/f")
			os.Rename(p.path("f"), p.path("d/f"))
		},
		"link": func(p *place) {
			p.see(unix.SYS_LINKAT, [6]uint64{at(), 0, at()}, "f", "d/f")
			os.Link(p.path("f"), p.path("d/f"))
		},
	} {
		p := newPlace(t)
		p.write("f", "x")
		if err := os.Mkdir(p.path("d"), 0o755); err != nil {
			t.Fatal(err)
		}
		act(p)
		p.open("d/f", unix.O_WRONLY)
		if err := p.r.Close(); err != nil {
			t.Fatal(err)
		}
		dir, file := 0, 0
		n := 0
		p.each(func(_ *spool.Reader, rec *spool.Record) {
			n++
			switch {
			case rec.Kind != spool.KindVersion:
			case p.path("d") == "/"+rec.Path:
				dir = n
			case p.path("d/f") == "/"+rec.Path2:
				file = n
			}
		})
		if dir == 0 || file < dir {
			t.Errorf("%s: the directory is record %d, the name in it is record %d", name, dir, file)
		}
	}
}

// TestDirectoryReplacedByOthers: an unwatched process removes a directory and makes it again, between
// two watched commands that remove files in it. The history must learn of the new directory before
// the second file is removed.
func TestDirectoryReplacedByOthers(t *testing.T) {
	p := newPlace(t)
	var made []event.Inode
	for range 2 {
		if err := os.RemoveAll(p.path("d")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond) // the time of birth, which has the resolution of the clock tick, must differ
		if err := os.MkdirAll(p.path("d/sub"), 0o755); err != nil {
			t.Fatal(err)
		}
		st, _ := lstat(p.path("d/sub"))
		made = append(made, event.InodeOf(st))
		p.write("d/sub/f", "x")
		p.unlink("d/sub/f")
		os.Remove(p.path("d/sub/f"))
		p.r.Settle()
	}
	p.kill()
	state, err := p.paths.State(p.root)
	if err != nil {
		t.Fatal(err)
	}
	var told []event.Inode
	removals := 0
	if err := readSpool(wire.SpoolDir(state), func(rec *spool.Record) {
		switch name := filepath.Base(rec.Path); {
		case name == "sub" && rec.Op == event.OpBaseline:
			told = append(told, event.InodeOf(rec.Stat))
		case name == "f" && rec.Op == event.OpUnlink:
			if removals++; removals != len(told) {
				t.Errorf("removal %d comes after %d records of its directory", removals, len(told))
			}
		}
	}); err != nil || removals != 2 {
		t.Errorf("%d removals: %v", removals, err)
	}
	if made[0] == made[1] || !slices.Equal(told, made) {
		t.Errorf("the history knows the directories %v, want %v", told, made)
	}
}

// TestDirectoryInReplacedDirectory: an unwatched process replaces a directory and moves a subdirectory
// of the old one to the new one. When the new directory is recorded, the history no longer has
// anything below the old one. So the subdirectory must be recorded again, although it is the same.
func TestDirectoryInReplacedDirectory(t *testing.T) {
	p := newPlace(t)
	if err := os.MkdirAll(p.path("d/sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	remove := func(name string) {
		p.write(name, "x")
		p.unlink(name)
		os.Remove(p.path(name))
		p.r.Settle()
	}
	remove("d/sub/f")
	time.Sleep(20 * time.Millisecond) // longer than the clock tick, so that the new directory is younger
	for _, err := range []error{os.Mkdir(p.path("e"), 0o755), os.Rename(p.path("d/sub"), p.path("e/sub")), os.Remove(p.path("d")), os.Rename(p.path("e"), p.path("d"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	remove("d/g")
	remove("d/sub/f")
	p.kill()
	var records []string
	p.each(func(_ *spool.Reader, rec *spool.Record) {
		if name := filepath.Base(rec.Path); rec.Kind == spool.KindVersion && (name == "d" || name == "sub") {
			records = append(records, name)
		}
	})
	if want := []string{"d", "sub", "d", "sub"}; !slices.Equal(records, want) {
		t.Errorf("recorded %v, want %v", records, want)
	}
}

// TestKilledBeforeModesAreRecorded: a recorder is killed after it let through a command that changes
// the modes of a directory and of what is in it. The next recorder must not describe the directory's
// new mode as one that it had before.
func TestKilledBeforeModesAreRecorded(t *testing.T) {
	p := newPlace(t)
	if err := os.MkdirAll(p.path("d/sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"d", "d/sub"} {
		p.see(unix.SYS_FCHMODAT, [6]uint64{at(), 0, 0o700}, name)
		if err := os.Chmod(p.path(name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	p.kill()
	p.start()
	p.r.Settle()
	p.kill()
	modes := map[string]string{}
	p.each(func(_ *spool.Reader, rec *spool.Record) {
		if rec.Kind == spool.KindVersion {
			modes[rec.Path] += fmt.Sprintf("%d %o, ", rec.Op, rec.Stat.Mode&0o777)
		}
	})
	want := fmt.Sprintf("%d 755, %d 700, ", event.OpBaseline, event.OpChmod)
	for _, name := range []string{"d", "d/sub"} {
		if got := modes[p.r.trackOf(p.path(name)).rel(p.path(name))]; !strings.HasPrefix(got, want) {
			t.Errorf("%s has the states %q, want %q", name, got, want)
		}
	}
}

// TestMadeAgainByOthers: an unwatched process replaces a file by another one with the same two
// names, and a watched command moves and removes both names. The content is in the history, without
// a gap. When an unwatched process has removed a file, a watched command that writes under that
// name makes a new file.
func TestMadeAgainByOthers(t *testing.T) {
	p := newPlace(t)
	remove := func(name string) {
		p.unlink(name)
		os.Remove(p.path(name))
	}
	settle := func(content string) {
		p.unlink("none") // this call shows that the thread has finished its last call
		p.r.Settle()
		for saved := false; !saved; time.Sleep(time.Millisecond) {
			_, contents := p.told()
			saved = contents[content]
		}
	}
	if err := os.Mkdir(p.path("d"), 0o755); err != nil {
		t.Fatal(err)
	}
	p.open("d/x", unix.O_WRONLY|unix.O_CREAT)
	p.write("d/x", "first")
	p.see(unix.SYS_LINKAT, [6]uint64{at(), 0, at()}, "d/x", "d/y")
	if err := os.Link(p.path("d/x"), p.path("d/y")); err != nil {
		t.Fatal(err)
	}
	settle("first")
	os.RemoveAll(p.path("d"))
	if err := os.Mkdir(p.path("d"), 0o755); err != nil {
		t.Fatal(err)
	}
	p.write("d/x", "second")
	if err := os.Link(p.path("d/x"), p.path("d/y")); err != nil {
		t.Fatal(err)
	}
	p.see(unix.SYS_RENAMEAT2, [6]uint64{at(), 0, at()}, "d/x", "z")
	os.Rename(p.path("d/x"), p.path("z"))
	remove("z")
	remove("d/y")
	p.open("d/w", unix.O_WRONLY|unix.O_CREAT)
	p.write("d/w", "third")
	settle("third")
	os.Remove(p.path("d/w"))
	p.open("d/w", unix.O_WRONLY|unix.O_CREAT)
	p.write("d/w", "fourth")
	settle("fourth")
	p.kill()
	changes, contents := p.told()
	var made []string
	for _, c := range changes {
		if c.op == event.OpCreate || c.op == event.OpUnlink {
			made = append(made, fmt.Sprintf("%d %s", c.op, c.names))
		}
	}
	want := []string{"2 w", "2 w", "2 x", "8 w by nobody", "8 y", "8 z"}
	slices.Sort(made)
	if !slices.Equal(made, want) || !contents["second"] {
		t.Errorf("%q, want %q; contents %v", made, want, contents)
	}
	state, err := p.paths.State(p.root)
	if err != nil {
		t.Fatal(err)
	}
	if err := readSpool(wire.SpoolDir(state), func(rec *spool.Record) {
		if rec.Kind == spool.KindGap {
			t.Errorf("a gap at %s: %s", rec.Path, rec.Reason)
		}
	}); err != nil {
		t.Error(err)
	}
}

// TestPassing: each "git status" makes and removes a lock file, which is not recorded. When a lock
// replaces a file, the content of the replaced file is saved.
func TestPassing(t *testing.T) {
	p := newPlace(t)
	p.project()
	p.theirs = true
	if err := os.Mkdir(p.path(".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	const flags = unix.O_RDWR | unix.O_CREAT | unix.O_EXCL
	p.write(".git/index", "old")
	p.open(".git/index.lock", flags)
	p.write(".git/index.lock", "")
	p.unlink(".git/index.lock")
	if len(p.r.pending)+len(p.r.ops)+len(p.r.entries) > 0 {
		t.Errorf("of a lock that comes and goes, %v and %v are awaited", p.r.pending, p.r.ops)
	}
	p.open(".git/index.lock", flags)
	p.write(".git/index.lock", "new")
	p.see(unix.SYS_RENAMEAT2, [6]uint64{at(), 0, at()}, ".git/index.lock", ".git/index")
	if err := os.Rename(p.path(".git/index.lock"), p.path(".git/index")); err != nil {
		t.Fatal(err)
	}
	// If a file that is named like a lock has another name outside of .git, its removal is
	// recorded.
	p.write("mine", "a")
	if err := os.Link(p.path("mine"), p.path(".git/mine.lock")); err != nil {
		t.Fatal(err)
	}
	p.unlink(".git/mine.lock")
	if len(p.r.ops) != 1 {
		t.Errorf("of a removed name of a file with two, %v are awaited", p.r.ops)
	}
	if err := p.r.Close(); err != nil {
		t.Fatal(err)
	}
	state, err := p.paths.State(p.root)
	if err != nil {
		t.Fatal(err)
	}
	kept := false
	if err := readSpool(wire.SpoolDir(state), func(r *spool.Record) {
		kept = kept || r.Kind == spool.KindGit && r.Path == ".git/index" && string(r.Before) == "old"
	}); err != nil || !kept {
		t.Errorf("what the index was is not kept: %v", err)
	}
}

// TestWhileWriting: a file that its writer still has open is saved when it has not changed for a
// moment. If the file changes while it is copied, it is saved again afterwards, so there must be no
// gap. An undo of a large file, which pauses before it sets the file's time, used to leave a gap.
func TestWhileWriting(t *testing.T) {
	p := newPlace(t)
	p.open("large", unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
	f, err := os.Create(p.path("large"))
	if err != nil {
		t.Fatal(err)
	}
	content := make([]byte, limits.Content-1)
	if _, err := f.Write(content); err != nil {
		t.Fatal(err)
	}
	p.r.Settle()
	if _, err := f.Write([]byte("!")); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.r.Close(); err != nil {
		t.Fatal(err)
	}
	state, err := p.paths.State(p.root)
	if err != nil {
		t.Fatal(err)
	}
	saved := false
	if err := readSpool(wire.SpoolDir(state), func(r *spool.Record) {
		switch {
		case r.Kind == spool.KindGap && r.Reason != "":
			t.Errorf("a gap: %s: %s", r.Path, r.Reason)
		case r.Kind == spool.KindContent && r.Len == limits.Content:
			saved = true
		}
	}); err != nil {
		t.Fatal(err)
	}
	if !saved {
		t.Error("what its writer left is not saved")
	}
}

// TestLinkedFileComesFromElsewhere: a file is renamed from another history over a file of the
// project, and one of the two has a second name. The file is recorded as a new file of the project,
// not as new content of the replaced one. Otherwise an undo would also change the file under its
// second name, or report the former content of the new file as lost.
func TestLinkedFileComesFromElsewhere(t *testing.T) {
	p := newPlace(t)
	p.project()
	p.theirs = true
	for _, name := range []string{"../alone", "../linked", "../third", "f", "g", "h"} {
		p.write(name, "was "+name)
	}
	for from, to := range map[string]string{"../linked": "other", "h": "second"} {
		if err := os.Link(p.path(from), p.path(to)); err != nil {
			t.Fatal(err)
		}
	}
	for from, to := range map[string]string{"../alone": "f", "../linked": "g", "../third": "h"} {
		p.see(unix.SYS_RENAMEAT2, [6]uint64{at(), 0, at()}, from, to)
		if err := os.Rename(p.path(from), p.path(to)); err != nil {
			t.Fatal(err)
		}
	}
	p.r.Settle()
	if err := p.r.Close(); err != nil {
		t.Fatal(err)
	}
	changes, contents := p.told()
	slices.SortStableFunc(changes, func(a, b change) int { return strings.Compare(a.names, b.names) })
	if want := (told{{event.OpWrite, "f"}, {event.OpCreate, "g"}, {event.OpUnlink, "g"}, {event.OpCreate, "h"}, {event.OpUnlink, "h"}}); !slices.Equal(changes, want) {
		t.Errorf("reported %v, want %v", changes, want)
	}
	for _, content := range []string{"was f", "was g", "was h", "was ../alone", "was ../linked", "was ../third"} {
		if !contents[content] {
			t.Errorf("%q is not kept", content)
		}
	}
}

// TestBoundSocket: bind(2) makes a name for a socket. That name used to be missing from the
// history.
func TestBoundSocket(t *testing.T) {
	p := newPlace(t)
	p.project()
	p.theirs = true
	var addr []byte
	bind := func(family uint16, name string) {
		addr = append(binary.NativeEndian.AppendUint16(nil, family), name...)
		n := &notifier.Notice{PID: uint32(unix.Gettid()), NR: unix.SYS_BIND, Arch: notifier.AuditArch, Args: [6]uint64{3, 1 << 16, uint64(len(addr))}}
		n.Read = func(_ uint32, _ uint64, buf []byte) bool { return copy(buf, addr) == len(buf) }
		if examined, _ := p.r.see(n, origin{began: time.Now(), ours: true}); !examined {
			t.Fatalf("a bind to %q is not seen", name)
		}
	}
	bind(unix.AF_UNIX, p.path("socket"))
	l, err := net.Listen("unix", p.path("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	bind(unix.AF_UNIX, "\x00abstract")
	bind(unix.AF_INET, "\x00\x50\x7f\x00\x00\x01")
	bind(unix.AF_UNIX, "")
	p.r.Settle()
	if err := p.r.Close(); err != nil {
		t.Fatal(err)
	}
	changes, _ := p.told()
	if want := (told{{event.OpMknod, "socket"}}); !slices.Equal(changes, want) {
		t.Errorf("reported %v, want %v", changes, want)
	}
}

// TestWhiteout: a rename with RENAME_WHITEOUT leaves a device under the old name. The device used to
// be missing from the history, so an undo could not give the file its name back, and removed it. A
// killed recorder leaves the report of the device to the next one.
func TestWhiteout(t *testing.T) {
	for _, killed := range []bool{false, true} {
		p := newPlace(t)
		for _, name := range []string{"free", "taken", "other"} {
			p.write(name, "was "+name)
		}
		for from, to := range map[string]string{"free": "new", "taken": "other"} {
			p.see(unix.SYS_RENAMEAT2, [6]uint64{at(), 0, at(), 0, unix.RENAME_WHITEOUT}, from, to)
			if err := unix.Renameat2(unix.AT_FDCWD, p.path(from), unix.AT_FDCWD, p.path(to), unix.RENAME_WHITEOUT); err != nil {
				t.Fatal(err)
			}
		}
		if killed {
			p.kill()
			p.start()
		}
		p.r.Settle()
		if err := p.r.Close(); err != nil {
			t.Fatal(err)
		}
		changes, _ := p.told()
		slices.SortFunc(changes, func(a, b change) int { return strings.Compare(a.names, b.names) })
		want := told{{event.OpMknod, "free"}, {event.OpRename, "free new"}, {event.OpMknod, "taken"}, {event.OpRename, "taken other"}}
		if !slices.Equal(changes, want) {
			t.Errorf("killed %v: reported %v, want %v", killed, changes, want)
		}
	}
}

// TestDirectoryComesFromElsewhere: a directory is renamed from one history to another, in both
// directions. What is in it leaves the one history, with its contents, and appears in the other. Only
// the directory itself used to, so an undo in one history found unknown files in the other, and
// contents were lost. What one of the two does not record must stay unknown in the other, because an undo
// would remove it there and could not put it back.
func TestDirectoryComesFromElsewhere(t *testing.T) {
	for _, into := range []bool{false, true} {
		p := newPlace(t)
		own := p.root
		p.project()
		p.theirs = true
		p.write(".cachebroignore", "private\n")
		from, to := "d", "../e"
		if into {
			from, to = to, from
		}
		if err := errors.Join(os.MkdirAll(p.path(from+"/sub"), 0o755), os.Mkdir(p.path(from+"/private"), 0o755)); err != nil {
			t.Fatal(err)
		}
		p.write(from+"/private/excluded", "is in no history of the project")
		p.write(from+"/f", "was f")
		p.write(from+"/sub/g", "was g")
		p.see(unix.SYS_RENAMEAT2, [6]uint64{at(), 0, at()}, from, to)
		if err := os.Rename(p.path(from), p.path(to)); err != nil {
			t.Fatal(err)
		}
		p.r.Settle()
		p.open(to+"/f", unix.O_WRONLY|unix.O_TRUNC)
		p.write(to+"/f", "is f")
		p.r.Settle()
		if err := p.r.Close(); err != nil {
			t.Fatal(err)
		}
		source, target := p.root, own
		if into {
			source, target = target, source
		}
		p.root = source
		changes, contents := p.told()
		if want := (told{{event.OpRmdir, filepath.Base(from)}}); !slices.Equal(changes, want) {
			t.Errorf("into the project %v: the source reported %v, want %v", into, changes, want)
		}
		if !contents["was f"] || !contents["was g"] {
			t.Errorf("into the project %v: the source keeps %v", into, contents)
		}
		p.root = target
		changes, contents = p.told()
		slices.SortStableFunc(changes, func(a, b change) int { return strings.Compare(a.names, b.names) })
		if want := (told{{event.OpMkdir, filepath.Base(to)}, {event.OpCreate, "f"}, {event.OpWrite, "f"}, {event.OpCreate, "g"}, {event.OpMkdir, "sub"}}); !slices.Equal(changes, want) {
			t.Errorf("into the project %v: the target reported %v, want %v", into, changes, want)
		}
		if !contents["was f"] || !contents["was g"] || !contents["is f"] {
			t.Errorf("into the project %v: the target keeps %v", into, contents)
		}
	}
}

// TestExchangedWithElsewhere: each of two files of different histories gets the other's name. Only one
// of them used to leave its history.
func TestExchangedWithElsewhere(t *testing.T) {
	p := newPlace(t)
	own := p.root
	p.project()
	p.theirs = true
	p.write("a", "was a")
	p.write("../b", "was b")
	p.see(unix.SYS_RENAMEAT2, [6]uint64{at(), 0, at(), 0, unix.RENAME_EXCHANGE}, "a", "../b")
	if err := unix.Renameat2(unix.AT_FDCWD, p.path("a"), unix.AT_FDCWD, p.path("../b"), unix.RENAME_EXCHANGE); err != nil {
		t.Fatal(err)
	}
	p.r.Settle()
	if err := p.r.Close(); err != nil {
		t.Fatal(err)
	}
	for root, name := range map[string]string{p.root: "a", own: "b"} {
		p.root = root
		changes, contents := p.told()
		if want := (told{{event.OpCreate, name}, {event.OpUnlink, name}}); !slices.Equal(changes, want) {
			t.Errorf("%s: reported %v, want %v", root, changes, want)
		}
		if !contents["was a"] || !contents["was b"] {
			t.Errorf("%s: keeps %v", root, contents)
		}
	}
}

// TestOtherKindComesFromElsewhere: what is renamed from another history replaces a symbolic link, an
// empty directory, or a file by something of another kind. The replaced one was not recorded as removed,
// so an undo could not make it again.
func TestOtherKindComesFromElsewhere(t *testing.T) {
	p := newPlace(t)
	p.project()
	p.theirs = true
	p.write("../file", "file")
	p.write("regular", "regular")
	err := errors.Join(os.Symlink("there", p.path("link")), os.Symlink("there", p.path("../link")), os.Mkdir(p.path("dir"), 0o755), os.Mkdir(p.path("../dir"), 0o755))
	if err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{"../file": "link", "../link": "regular", "../dir": "dir"} {
		p.see(unix.SYS_RENAMEAT2, [6]uint64{at(), 0, at()}, from, to)
		if err := unix.Rename(p.path(from), p.path(to)); err != nil { // os.Rename does not replace a directory
			t.Fatal(err)
		}
	}
	p.r.Settle()
	if err := p.r.Close(); err != nil {
		t.Fatal(err)
	}
	changes, _ := p.told()
	slices.SortStableFunc(changes, func(a, b change) int { return strings.Compare(a.names, b.names) })
	want := told{{event.OpMkdir, "dir"}, {event.OpRmdir, "dir"}, {event.OpCreate, "link"}, {event.OpUnlink, "link"}, {event.OpUnlink, "regular"}, {event.OpSymlink, "regular"}}
	if !slices.Equal(changes, want) {
		t.Errorf("reported %v, want %v", changes, want)
	}
}

// TestFullDisk: a call whose change cannot be saved, because the disk of the histories is full, counts as
// one that could not be examined, so that run reports it. Such calls used to pass without notice.
func TestFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to mount")
	}
	p := newPlace(t)
	if err := p.r.Close(); err != nil {
		t.Fatal(err)
	}
	state := p.paths.StateHome
	if err := unix.Mount("tmpfs", state, "tmpfs", 0, "mode=700,size=1m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(state, 0); err != nil {
			t.Error(err)
		}
	})
	p.start()
	defer p.r.Close()
	p.write("f", "was f")
	name := append([]byte(p.path("f")), 0)
	n := &notifier.Notice{PID: uint32(unix.Gettid()), NR: unix.SYS_OPENAT, Arch: notifier.AuditArch, Args: [6]uint64{at(), 1 << 16, unix.O_WRONLY | unix.O_TRUNC}}
	n.Read = func(_ uint32, _ uint64, buf []byte) bool {
		clear(buf)
		return copy(buf, name) > 0
	}
	if examined, _ := p.r.see(n, origin{began: time.Now(), ours: true}); examined {
		t.Error("the call counts as examined")
	}
}

// TestExcludedFileLeaves: a file that the project does not record is renamed to a place outside of it. It
// used to be recorded there as a new file, so an undo removed the only copy.
func TestExcludedFileLeaves(t *testing.T) {
	p := newPlace(t)
	own := p.root
	p.project()
	p.theirs = true
	p.pid = os.Getppid() // not this program, whose changes count as those of a plan
	p.write("__pycache__/a", "is excluded")
	p.see(unix.SYS_RENAMEAT2, [6]uint64{at(), 0, at()}, "__pycache__/a", "../a")
	if err := os.Rename(p.path("__pycache__/a"), p.path("../a")); err != nil {
		t.Fatal(err)
	}
	p.r.Settle()
	if err := p.r.Close(); err != nil {
		t.Fatal(err)
	}
	p.root = own
	if changes, _ := p.told(); len(changes) > 0 {
		t.Errorf("reported %v", changes)
	}
}
