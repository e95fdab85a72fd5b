package capture

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cachebro/fusefs"
	"cachebro/store/leaf/event"
	"cachebro/store/leaf/ignore"
	"cachebro/store/leaf/spool"
)

var big = strings.Repeat("0123456789abcdef", 20_000) // 320,000 bytes, so the operation that destroys the content does not copy it

// Every content of a closed file is in the log, in order, however soon the file is changed or
// removed afterwards.
func TestClosedThenDestroyed(t *testing.T) {
	for _, size := range []string{"small", big} {
		t.Run(fmt.Sprint(len(size)), func(t *testing.T) {
			h := newHarness(t, nil)
			a := h.create("a", "1"+size)
			a.replace("2" + size)
			a.close()
			a.write(0, "3", nil)
			a.close()
			a.unlink()
			b := h.create("b", "old"+size)
			c := h.create("b.tmp", "new"+size)
			c.rename("b", b)
			c.unlink()
			log := h.log()
			wantNoGaps(t, log)
			wantVersions(t, log, "a", "1"+size, "2"+size, "3"+size)
			wantVersions(t, log, "b", "old"+size)
			wantVersions(t, log, "b.tmp", "new"+size)
			var ops []string
			for _, e := range log {
				if e.Kind == spool.KindVersion {
					ops = append(ops, fmt.Sprint(e.Op, e.Path))
				}
			}
			if want := "[2a 3a 3a 8a 2b 2b.tmp 5b.tmp 8b]"; fmt.Sprint(ops) != want {
				t.Errorf("order %v, want %v", ops, want)
			}
		})
	}
}

// Content that was never captured is saved by the operation that destroys it, just before it does
// so, and not earlier.
func TestUnknownContentIsSaved(t *testing.T) {
	for _, text := range []string{"", "small", big} {
		t.Run(fmt.Sprint(len(text)), func(t *testing.T) {
			h := newHarness(t, nil)
			h.file("overwritten", text).write(0, "x", nil)
			h.file("truncated", text).replace("")
			h.file("deleted", text).unlink()
			h.file("new", "new").rename("replaced", h.file("replaced", text))
			h.file("linked", text)
			if err := os.Link(h.name("linked"), h.name("other")); err != nil {
				t.Fatal(err)
			}
			h.node("other").unlink() // the content keeps one name, but loses this one
			log := h.log()
			wantNoGaps(t, log)
			for _, p := range []string{"overwritten", "truncated", "deleted", "replaced", "other"} {
				wantVersions(t, log, p, text)
			}
			for _, e := range log {
				if e.HasContent && e.Op != event.OpBaseline {
					t.Errorf("%s is recorded as %d", e.Path, e.Op)
				}
			}
		})
	}
}

// Content that a completed scan has stored is not copied again when it is destroyed. Content that
// the scan cannot have seen is copied.
func TestBaselineIsReliedOn(t *testing.T) {
	h := newHarness(t, nil)
	known := h.file("known", "1")
	time.Sleep(20 * time.Millisecond)
	h.c.BaselineDone(time.Now().Add(1200 * time.Millisecond)) // a second is subtracted, because the clock ticks
	later := h.file("later", "2")
	past := time.Now().Add(-time.Hour)
	os.Chtimes(h.name("later"), past, past) // an old mtime proves nothing
	h.c.scans.seen.Store(mustStat(t, later).Ctime)
	known.unlink()
	later.unlink()
	// A directory that was moved into the project was not scanned, whatever its times say.
	moved := h.file("moved", "3")
	h.c.BaselineDone(time.Now().Add(time.Hour))
	h.c.scans.relocated(true)
	moved.unlink()
	log := h.log()
	wantVersions(t, log, "known")
	wantVersions(t, log, "later", "2")
	wantVersions(t, log, "moved", "3")
}

func mustStat(t *testing.T, f *file) event.Stat {
	t.Helper()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// An append to a log costs only its tail, and the content is complete all the same.
func TestTails(t *testing.T) {
	h := newHarness(t, nil)
	f := h.create("log", big)
	want := []string{big}
	text := big
	for i := range 20 {
		line := fmt.Sprintf("line %d\n", i)
		f.write(int64(len(text)), line, nil)
		f.close()
		text += line
		want = append(want, text)
	}
	f.write(int64(len(text))-3, "XY", nil) // the change is not only an append
	f.close()
	want = append(want, text[:len(text)-3]+"XY"+text[len(text)-1:])
	spooled := h.c.Stats()
	log := h.log()
	wantNoGaps(t, log)
	wantVersions(t, log, "log", want...)
	if spooled = h.c.Stats(); spooled.Spooled > int64(2*len(big)) {
		t.Errorf("%d bytes spooled for a file of %d", spooled.Spooled, len(text))
	}
}

func TestLargeFilesAreSaidToBe(t *testing.T) {
	h := newHarness(t, func(o *Options) { o.MaxFile = 1000 })
	f := h.create("big", big)
	f.unlink()
	h.file("there", big).unlink()
	log := h.log()
	wantNoGaps(t, log)
	n := 0
	for _, e := range log {
		if e.TooLarge && e.Stat.Size == int64(len(big)) && !e.HasContent {
			n++
		}
	}
	if n != 2 {
		t.Errorf("%d versions say that they are too large, want 2", n)
	}
}

// rules is a matcher over a project with an ignored and an excluded directory.
func rules(t *testing.T, h *harness) *ignore.Matcher {
	t.Helper()
	for name, text := range map[string]string{".gitignore": "/out/\n*.tmp\nnode_modules/\n", "package.json": "{}", ".git/HEAD": "ref: refs/heads/main\n"} {
		h.file(name, text)
	}
	dir, err := os.Open(h.root)
	if err != nil {
		t.Fatal(err)
	}
	m, err := ignore.New(dir, ignore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close(); dir.Close() })
	h.c.opt.Matcher = m // before the first event
	return m
}

// Each append to an ignored file uses budget for the file's whole content. A file that is appended
// to again and again must leave enough of the budget for others that are emptied or removed.
func TestAppendsLeaveBudgetToWhatGoes(t *testing.T) {
	h := newHarness(t, func(o *Options) { o.IgnoredHourly = 200 })
	rules(t, h)
	appended := h.file("out/log", strings.Repeat("l", 30))
	for range 5 {
		st, _ := appended.Stat()
		appended.write(st.Size, "more\n", nil)
		appended.close()
	}
	cut := h.file("out/cut", strings.Repeat("c", 40))
	cut.replace("")
	cut.close()
	h.file("out/gone", strings.Repeat("g", 40)).unlink()
	log := h.log()
	for _, p := range []string{"out/cut", "out/gone"} {
		wantVersions(t, log, p, strings.Repeat(p[4:5], 40))
	}
	if g := gaps(log); len(g) == 0 || slices.ContainsFunc(g, func(s string) bool { return !strings.Contains(s, "out/log") }) {
		t.Errorf("gaps: %q", g)
	}
}

func TestClasses(t *testing.T) {
	h := newHarness(t, func(o *Options) { o.IgnoredHourly = 100 })
	rules(t, h)
	ignored := h.file("out/a", "ignored")
	ignored.replace("ignored 2") // saves the old content
	ignored.close()
	ignored.unlink() // saves the new content
	h.file("out/much", strings.Repeat("m", 200)).unlink()
	excluded := h.file("node_modules/x/y", "excluded")
	excluded.replace("excluded 2")
	excluded.close()
	excluded.unlink()
	for _, d := range []string{"node_modules/x", "node_modules"} {
		h.c.Done(fusefs.Event{Op: event.OpRmdir, Path: d, Stat: event.Stat{Mode: unix.S_IFDIR}, Class: ignore.Excluded, Class2: ignore.Excluded, Caller: h.by, Time: time.Now()})
	}
	// An ignored file is moved to a place whose files are never saved. Capture does not see the
	// file again.
	h.file("out/env", "KEY=1").rename("node_modules/env", nil)
	// Next come two atomic saves. The temporary file of the first has an ignored name, that of the
	// second is in .git.
	save := h.file("doc.tmp", "saved")
	save.made = true
	save.close()
	save.rename("doc", nil)
	h.file(".git/merge", "merged").rename("doc", save)
	log := h.log()
	wantVersions(t, log, "out/a", "ignored", "ignored 2")
	wantVersions(t, log, "out/env", "KEY=1")
	wantVersions(t, log, "doc", "saved", "merged")
	if g := gaps(log); len(g) != 1 || !strings.Contains(g[0], "out/much") || !strings.Contains(g[0], "budget") {
		t.Errorf("gaps: %q", g)
	}
	notices, told, much := 0, 0, 0
	for _, e := range log {
		switch {
		case e.Kind == spool.KindNotice:
			notices++
		case e.Path == "node_modules" && e.Op == event.OpRmdir && e.Reason == "1 file, 10 bytes: excluded from the history":
			told++
		case strings.HasPrefix(e.Path, "node_modules"):
			t.Errorf("excluded, but recorded: %+v", e.Record)
		case e.Path == "out/much" && e.Op == event.OpBaseline && strings.Contains(e.Reason, "budget"):
			much++
		}
	}
	if notices != 1 || told != 1 || much != 1 {
		t.Errorf("%d notices and %d versions of one deleted directory; %d of a file that the budget left out", notices, told, much)
	}
}

// The content of a file that was ignored until a rule changed is in no baseline, so it must be
// saved.
func TestRulesChange(t *testing.T) {
	h := newHarness(t, nil)
	rules(t, h)
	was := h.file("x.tmp", "precious")
	h.c.BaselineDone(time.Now().Add(time.Hour))
	r := h.node(".gitignore")
	r.replace("")
	r.close()
	was.replace("gone")
	was.close()
	wantVersions(t, h.log(), "x.tmp", "precious", "gone")
}

func TestProcesses(t *testing.T) {
	h := newHarness(t, nil)
	shell := &fusefs.Process{PID: 5, Start: 50, Comm: "bash", Session: map[string]string{"CLAUDE_CODE_SESSION_ID": "s"}}
	h.by = fusefs.Caller{PID: 6, UID: 1000, Proc: &fusefs.Process{PID: 6, Start: 60, Parent: shell, Comm: "bash", UID: 1000}}
	h.create("a", "1")
	h.create("b", "2")
	h.by.Proc = &fusefs.Process{PID: 6, Start: 60, Parent: shell, Comm: "gofmt", UID: 1000} // exec
	h.create("c", "3")
	var got []string
	for _, e := range h.log() {
		switch {
		case e.Kind == spool.KindProcess:
			got = append(got, fmt.Sprintf("%s %d<%d %v", e.Comm, e.PID, e.PPID, e.Session))
		case e.Kind == spool.KindVersion:
			got = append(got, fmt.Sprintf("%s by %d/%d", e.Path, e.PID, e.Start))
		}
	}
	want := []string{"bash 5<0 map[CLAUDE_CODE_SESSION_ID:s]", "bash 6<5 map[]", "a by 6/60", "b by 6/60", "gofmt 6<5 map[]", "c by 6/60"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestReads(t *testing.T) {
	h := newHarness(t, nil)
	proc := func(pid uint32, comm string, s map[string]string) fusefs.Caller {
		return fusefs.Caller{PID: pid, Proc: &fusefs.Process{PID: pid, Start: 1, Comm: comm, Parent: &fusefs.Process{PID: 1, Session: s}}}
	}
	session := map[string]string{"CLAUDE_CODE_SESSION_ID": "s"}
	f := h.file("a", "")
	for range 3 {
		h.c.Opened(f, proc(10, "cat", session))
		h.c.Opened(f, proc(11, "cat", nil)) // this process has no session
	}
	for i := range 300 {
		h.c.Opened(h.node(fmt.Sprint("f", i)), proc(12, "grep", session))
	}
	var got []string
	for _, e := range h.log() {
		if e.Kind == spool.KindReads {
			got = append(got, fmt.Sprint(e.PID, e.Paths, e.More))
		}
	}
	if len(got) != 2 || !strings.Contains(fmt.Sprint(got), "10 [a] 0") || !strings.Contains(fmt.Sprint(got), "12 [] 300") {
		t.Errorf("got %q", got)
	}
}

func TestOutside(t *testing.T) {
	h := newHarness(t, nil)
	safe, unsafe := h.create("safe", "1"), h.file("unsafe", "1")
	h.c.settle(safe, &canceller{}, false)
	for _, f := range []*file{safe, unsafe} {
		was := mustStat(t, f)
		if err := os.WriteFile(h.name(f.Path()), []byte("22"), 0o644); err != nil {
			t.Fatal(err)
		}
		h.c.Outside(f, was, mustStat(t, f))
	}
	safe.write(2, "3", nil)
	safe.close()
	log := h.log()
	wantVersions(t, log, "safe", "1", "22", "223")
	wantVersions(t, log, "unsafe", "22")
	if g := gaps(log); len(g) != 1 || !strings.HasPrefix(g[0], "unsafe: ") {
		t.Errorf("gaps: %q", g)
	}
}

// An overlayfs copies a file when the mount opens it for writing, and the copy has a new ctime. That
// was reported as an unsaved content, although nothing was lost.
func TestOutsideWithoutNewContent(t *testing.T) {
	h := newHarness(t, nil)
	f := h.file("a", "1")
	after := mustStat(t, f)
	before := after
	before.Ctime--
	h.c.Outside(f, before, after)
	log := h.log()
	wantVersions(t, log, "a", "1")
	if g := gaps(log); len(g) != 0 {
		t.Errorf("gaps: %q", g)
	}
}

// fsync returns only when the content of the last close is durable.
func TestSynced(t *testing.T) {
	h := newHarness(t, nil)
	f := h.create("a", big)
	h.c.Synced(f, nil)
	if j := h.c.pending[f.id]; j != nil {
		t.Error("the content is still queued")
	}
	if st := h.c.Stats(); st.Spooled != int64(len(big)) {
		t.Errorf("%d bytes spooled", st.Spooled)
	}
}

// The kernel forgets an inode while its content is queued, and the file later gets another node id.
// A change through the new node must still wait for the copy.
func TestForgottenInode(t *testing.T) {
	h := newHarness(t, nil)
	h.slow.Store(int64(20 * time.Millisecond))
	f := h.create("a", "1"+big)
	again := h.node("a")
	again.replace("2" + big)
	again.close()
	_ = f
	log := h.log()
	wantNoGaps(t, log)
	wantVersions(t, log, "a", "1"+big, "2"+big)
}

// TestExcludedKeepsAttributes: the state of an excluded name that is recorded before its move
// contains the extended attributes. Without them, an undo removed those of a moved directory.
func TestExcludedKeepsAttributes(t *testing.T) {
	h := newHarness(t, nil)
	rules(t, h)
	f := h.file("node_modules/x", "text")
	if err := syscall.Setxattr(h.name("node_modules/x"), "user.one", []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	h.c.recordExcluded(f, "node_modules/x", "", st, ignore.Excluded)
	if log := h.log(); !slices.ContainsFunc(log, func(e entry) bool { return strings.Contains(e.Stat.Attrs, "user.one") }) {
		t.Errorf("no record has the attribute: %+v", log)
	}
}
