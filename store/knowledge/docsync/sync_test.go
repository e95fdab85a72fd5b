package docsync

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"cachebro/store"
)

func storePath(p string) store.Path { return store.Path(p) }

// log writes to a store one change at a time, as ingestion does.
type log struct {
	t    *testing.T
	dir  string
	s    *store.Store
	y    *Sync
	time int64
	pid  uint32
	comm string
	op   store.Op
}

func newLog(t *testing.T) *log {
	t.Helper()
	l := &log{t: t, dir: t.TempDir(), time: 1_700_000_000_000_000_000, comm: "vi"}
	l.open()
	return l
}

func (l *log) open() {
	l.t.Helper()
	s, err := store.Open(l.dir, store.Options{Ballast: -1, MinFree: 1 << 20})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { s.Close() })
	l.s = s
	l.reopen()
}

// reopen simulates a new daemon on the same store.
func (l *log) reopen() {
	l.t.Helper()
	y, err := Open(l.s, Options{IsDoc: func(p string) bool { return strings.HasSuffix(p, ".md") }, IsCode: isCode})
	if err != nil {
		l.t.Fatal(err)
	}
	l.y = y
}

func (l *log) apply(c store.Change) {
	l.t.Helper()
	l.time += 120_000_000_000 // far enough apart not to be one action
	c.Time, c.Actor = l.time, store.Actor{PID: l.pid, Comm: l.comm}
	if l.pid == 0 {
		c.Actor.PID = uint32(l.time / 120_000_000_000 % 1_000_000)
	}
	if _, err := l.s.Apply(context.Background(), []store.Change{c}, nil); err != nil {
		l.t.Fatal(err)
	}
}

func (l *log) write(p, text string) {
	l.t.Helper()
	op := store.OpWrite
	if l.op != 0 {
		op = l.op
	}
	l.apply(store.Change{Op: op, Path: store.Path(p), HasContent: true, Content: []byte(text), Stat: store.Stat{Mode: syscall.S_IFREG | 0o644, Nlink: 1, Size: int64(len(text))}})
}

func (l *log) remove(p string) {
	l.t.Helper()
	l.apply(store.Change{Op: store.OpUnlink, Path: store.Path(p), LastName: true, Stat: store.Stat{Mode: syscall.S_IFREG | 0o644, Nlink: 1}})
}

func (l *log) rename(from, to string) {
	l.t.Helper()
	l.apply(store.Change{Op: store.OpRename, Path: store.Path(from), Path2: store.Path(to), Stat: store.Stat{Mode: syscall.S_IFREG | 0o644, Nlink: 1}})
}

// state returns one line for each pair: doc <- spec state: changes.
func (l *log) state() string {
	l.t.Helper()
	r, err := l.y.Check(context.Background(), Filter{})
	if err != nil {
		l.t.Fatal(err)
	}
	return describe(r.Pairs)
}

func describe(pairs []Status) string {
	var out []string
	for _, p := range pairs {
		line := fmt.Sprintf("%s <- %s %s", p.Doc, p.Spec, p.State)
		for _, c := range p.Changes {
			line += fmt.Sprintf(" %s:%s", c.What, c.Path)
			if c.To != "" {
				line += ">" + string(c.To)
			}
		}
		if p.DocEdited {
			line += " edited"
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

func (l *log) want(what, want string) {
	l.t.Helper()
	if got := l.state(); got != want {
		l.t.Errorf("%s:\n got %s\nwant %s", what, got, want)
	}
}

func (l *log) mark(ref string, at uint64, edited bool) []Status {
	l.t.Helper()
	out, _, err := l.y.Mark(context.Background(), Filter{Ref: ref, Name: ref}, at, edited, "me", 7)
	if err != nil {
		l.t.Fatal(err)
	}
	return out
}

// TestStory follows one document while its code changes.
func TestStory(t *testing.T) {
	l := newLog(t)
	l.write("src/a.go", "one")
	l.write("src/b.go", "b")
	l.write("a.md", "<!-- cachebro: documents src/a.go -->")
	l.want("at first", "a.md <- src/a.go ok")
	l.write("src/b.go", "other")
	l.want("another file was written", "a.md <- src/a.go ok")
	l.write("src/a.go", "two")
	l.want("the code was written", "a.md <- src/a.go stale changed:src/a.go")
	l.reopen()
	l.want("after a restart", "a.md <- src/a.go stale changed:src/a.go")
	l.write("src/a.go", "one")
	l.want("the write was taken back", "a.md <- src/a.go ok")
	l.write("src/a.go", "three")
	seen := l.s.Seq()
	l.write("a.md", "new words <!-- cachebro: documents src/a.go -->")
	l.want("the document was edited, which proves nothing", "a.md <- src/a.go stale changed:src/a.go edited")
	l.write("src/a.go", "four")
	l.want("the code was written after the document", "a.md <- src/a.go stale changed:src/a.go")
	l.mark("a.md", seen, false)
	l.want("marked for an earlier version than the newest", "a.md <- src/a.go stale changed:src/a.go")
	if got := l.mark("src/a.go", 0, true); len(got) != 0 {
		t.Errorf("marked although the document was not edited: %v", got)
	}
	if got := l.mark("src/a.go", 0, false); len(got) != 1 {
		t.Errorf("marked %v", got)
	}
	l.want("marked", "a.md <- src/a.go ok")
	l.mark("a.md", seen, false)
	l.want("an older mark does not take a newer one back", "a.md <- src/a.go ok")

	l.rename("src/a.go", "src/z.go")
	l.want("the code was renamed", "a.md <- src/a.go stale moved:src/a.go>src/z.go")
	l.rename("src/z.go", "src/a.go")
	l.want("and back", "a.md <- src/a.go ok")
	l.write("src/a.go", "five")
	l.remove("a.md")
	l.want("the document is gone", "")
	l.reopen()
	l.write("a.md", "<!-- cachebro: documents src/a.go -->")
	l.want("it is written anew, as some editors do", "a.md <- src/a.go stale changed:src/a.go edited")
	l.rename("a.md", "doc/b.md")
	l.want("the document was renamed", "doc/b.md <- src/a.go stale changed:src/a.go edited")
	l.remove("src/a.go")
	l.want("the code was deleted", "doc/b.md <- src/a.go stale deleted:src/a.go")
}

// TestManifest tests pairs and groups of cachebro.yml, with directories and patterns.
func TestManifest(t *testing.T) {
	l := newLog(t)
	l.write("src/a.go", "a")
	l.write("src/sub/b.go", "b")
	l.write("doc.md", "about x.go")
	l.write("cachebro.yml", "nodes:\n  core:\n    source: [src/]\ndocs:\n  - doc: doc.md\n    code: [core]\n  - doc: all.md\n    code: ['src/**/*.go', gone.go]\n")
	l.want("declared", "all.md <- gone.go missing\nall.md <- src/**/*.go ok\ndoc.md <- src/ ok")
	l.write("src/c.go", "new")
	l.want("a file was added", "all.md <- gone.go missing\nall.md <- src/**/*.go stale added:src/c.go\ndoc.md <- src/ stale added:src/c.go")
	r, err := l.y.Check(t.Context(), Filter{Name: "core"})
	if err != nil || len(r.Pairs) != 2 || !r.Pairs[0].DocGone {
		t.Errorf("of the group: %+v %v", r, err)
	}
	if got := l.mark("core", 0, false); len(got) != 2 {
		t.Errorf("marked %s", describe(got))
	}
	l.write("cachebro.yml", "docs: [")
	r, err = l.y.Check(t.Context(), Filter{})
	if err != nil || len(r.Problems) != 1 || len(r.Pairs) != 3 {
		t.Errorf("while it cannot be read: %+v %v", r, err)
	}
	// Entries that are left out are named. It used to seem that all of them were checked.
	l.write("cachebro.yml", "docs:\n  - doc: doc.md\n    code: [../other/, src/]\n  - doc: ../up.md\n    code: [src/]\n")
	r, err = l.y.Check(t.Context(), Filter{})
	if err != nil || len(r.Problems) < 2 || !strings.Contains(r.Problems[0], `cachebro.yml:3: code: "../other/" leads out of the project`) || len(r.Pairs) != 1 {
		t.Errorf("with entries out of the project: %q, %d pairs, %v", r.Problems, len(r.Pairs), err)
	}
	l.reopen()
	l.remove("cachebro.yml")
	l.want("declared no more", "")
	l.write("x.go", "x")
	l.want("inferred, as the document has nothing better", "doc.md <- x.go ok")
}

// TestMaking: for a moment, the process that creates a pair's code may go on writing it. A write by
// another process, or a later write, is a change.
func TestMaking(t *testing.T) {
	l := newLog(t)
	l.write("plan.md", "will be in src/new.go")
	l.want("no code yet", "")
	made := store.Change{Op: store.OpCreate, Path: "src/new.go", HasContent: true, Stat: store.Stat{Mode: syscall.S_IFREG | 0o644, Nlink: 1}}
	l.pid = 9
	l.apply(made)
	l.time -= 119_000_000_000 // the next write comes a second later
	l.write("src/new.go", "first text")
	l.want("made", "plan.md <- src/new.go ok")
	l.reopen()
	l.write("src/new.go", "second text")
	l.want("two minutes later", "plan.md <- src/new.go stale changed:src/new.go")

	// In whatever order the first scan finds code and documents, nothing is stale.
	l = newLog(t)
	l.op = store.OpBaseline
	l.write("b.md", "<!-- cachebro: documents src/ -->")
	l.write("src/1.go", "1")
	l.state()
	l.write("src/2.go", "2")
	l.want("found by the scan", "b.md <- src/ ok")
	l.op = 0
	l.write("src/3.go", "3")
	l.want("made later", "b.md <- src/ stale added:src/3.go")
}

// TestGit: a checkout that changes both code and document makes no pair stale. A checkout makes the
// pair stale if it changes only the code, or if somebody has changed the code without git before.
func TestGit(t *testing.T) {
	l := newLog(t)
	l.write("a.go", "main")
	l.write("a.md", "on main: a.go")
	l.want("at first", "a.md <- a.go ok")
	git := func(pid uint32, files ...string) {
		l.comm, l.pid = "git", pid
		for i := 0; i < len(files); i += 2 {
			l.write(files[i], files[i+1])
		}
		l.comm, l.pid = "vi", 0
	}
	git(70, "a.go", "branch", "a.md", "on branch: a.go")
	l.want("both", "a.md <- a.go ok")
	git(71, "a.md", "on main: a.go", "a.go", "main")
	l.want("and back, the other way round", "a.md <- a.go ok")
	git(72, "a.go", "code only")
	l.want("the code alone", "a.md <- a.go stale changed:a.go")
	git(73, "a.go", "main")
	l.want("and back", "a.md <- a.go ok")
	git(74, "a.go", "branch", "a.md", "on branch: a.go")
	l.mark("a.md", 0, false)
	git(75, "a.go", "main", "a.md", "on main: a.go")
	l.write("a.go", "branch") // as before the checkout; no check ran in between
	l.want("a change right after git's", "a.md <- a.go stale changed:a.go")
	l.mark("a.md", 0, false)
	l.write("a.go", "my own")
	git(76, "a.go", "branch two", "a.md", "on branch: a.go")
	l.want("over a change of one's own", "a.md <- a.go stale changed:a.go edited")
}

// TestBegin tests how pairs begin in a project that already has a history.
func TestBegin(t *testing.T) {
	l := newLog(t)
	if err := l.s.KV("docsync").Delete("at"); err != nil {
		t.Fatal(err)
	}
	l.write("src/a.go", "a")
	l.reopen()
	l.write("cachebro.yml", "docs:\n  - {doc: d.md, code: src/}\n")
	l.write("d.md", "x")
	l.write("e.md", "see src/a.go")
	l.write("src/a.go", "b")
	l.want("from now on", "d.md <- src/ ok\ne.md <- src/a.go ok")
	l.write("src/a.go", "c")
	l.want("and changed", "d.md <- src/ stale changed:src/a.go\ne.md <- src/a.go stale changed:src/a.go")
	r, err := l.y.Check(t.Context(), Filter{Explicit: true})
	if err != nil || len(r.Pairs) != 1 {
		t.Fatal(r, err)
	}
	c := r.Pairs[0].Changes[0]
	if was, err := l.s.Content(c.Was); err != nil || string(was) != "b" || c.First.Seq != r.Seq || c.Versions != 1 || !l.y.Pinned(c.Was) {
		t.Errorf("%q %v %+v", was, err, c)
	}
	if slices.ContainsFunc(r.Pairs, func(s Status) bool { return s.How != Declared }) {
		t.Error(describe(r.Pairs))
	}
}

// TestFollowWaitsForTheBusy: following in the background waits while others use the machine. A
// request gets a complete answer nevertheless.
func TestFollowWaitsForTheBusy(t *testing.T) {
	l := newLog(t)
	l.write("a.go", "one\n")
	l.write("a.md", "See a.go.\n")
	if err := l.y.Follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	busy := true
	l.y.opt.Busy = func() bool { return busy }
	l.write("a.go", "two\n")
	if err := l.y.Follow(t.Context()); err != nil || l.y.at == l.s.Seq() {
		t.Fatalf("%v: followed up to %d of %d", err, l.y.at, l.s.Seq())
	}
	if got := l.state(); !strings.Contains(got, "stale") {
		t.Errorf("asked, it says %q", got)
	}
	l.write("a.go", "three\n")
	busy = false
	if err := l.y.Follow(t.Context()); err != nil || l.y.at != l.s.Seq() {
		t.Fatalf("%v: followed up to %d of %d", err, l.y.at, l.s.Seq())
	}
}
