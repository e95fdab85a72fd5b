package capture

import (
	"os"
	"slices"
	"testing"
	"time"

	"cachebro/fusefs"
	"cachebro/store/leaf/attrs"
	"cachebro/store/leaf/event"
	"cachebro/store/leaf/ignore"
	"cachebro/store/leaf/spool"

	"golang.org/x/sys/unix"
)

// A directory with a known name in it was exchanged with one of git's own. The name counted as
// ignored in .git as well, so the history had it, and an undo of a change of the file tried to write
// to the file by that name.
func TestNoNameInGitIsKnown(t *testing.T) {
	var b boundary
	b.add("__pycache__/e", false)
	b.moved("__pycache__", ".git/x", true)
	if b.has(".git/x/e") {
		t.Error("a name in .git is known")
	}
	b.add("out/e", false)
	b.moved("out", "in", false)
	if !b.has("in/e") || b.has("out/e") {
		t.Error("a name does not move with its directory")
	}
}

// The history first sees a file of an excluded directory when the file is moved out. Its attributes
// were not recorded, so an undo and a redo lost those that a later save changed.
func TestAttributesOfWhatLeavesAnExcludedDirectory(t *testing.T) {
	h := newHarness(t, nil)
	rules(t, h)
	f := h.file("node_modules/x", "x")
	if err := unix.Setxattr(h.name("node_modules/x"), "user.one", []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
	f.rename("src/x", nil)
	for _, e := range h.log() {
		if e.Path == "node_modules/x" && e.Op == event.OpBaseline {
			if !attrs.Set(e.Stat.Attrs).Has("user.one") {
				t.Errorf("recorded with the attributes %q", e.Stat.Attrs)
			}
			return
		}
	}
	t.Error("the file's old name is not recorded")
}

// An excluded directory was moved to a tracked name and back. The history had what was written in it
// meanwhile, but what was written after its return was not recorded, so an undo of the return brought
// back those files with the later content and did not report that.
func TestDirectoryThatReturnsToItsExcludedName(t *testing.T) {
	h := newHarness(t, nil)
	rules(t, h)
	h.file("sub/package.json", "{}")
	h.file("node_modules/x", "x")
	d := h.node("node_modules")
	d.rename("sub/node_modules", nil) // a directory that always had excluded names stays unknown
	within := h.node("sub/node_modules/x")
	within.replace("unknown")
	within.close()
	d.rename("moved", nil)
	f := h.node("moved/x")
	f.replace("known")
	f.close()
	d.rename("node_modules", nil)
	now := "node_modules/x"
	f.path.Store(&now)
	f.replace("later")
	f.close()
	log := h.log()
	wantVersions(t, log, "sub/node_modules/x")
	wantVersions(t, log, "moved/x", "unknown", "known")
	if !slices.ContainsFunc(log, func(e entry) bool { return e.Path == "node_modules/x" && e.Op == event.OpWrite }) {
		t.Error("a write in the returned directory is not recorded")
	}
}

// A symlink was made in an excluded directory, which was then moved to a tracked name. A file was
// renamed over the symlink before a scan had found it. Capture took the symlink for recorded, so an
// undo of the rename did not bring it back and did not report that.
func TestSymlinkThatCameWithAnExcludedDirectory(t *testing.T) {
	h := newHarness(t, nil)
	rules(t, h)
	h.file("node_modules/x", "x")
	if err := os.Symlink("x", h.name("node_modules/link")); err != nil {
		t.Fatal(err)
	}
	link := h.node("node_modules/link")
	st, err := link.Stat()
	if err != nil {
		t.Fatal(err)
	}
	h.c.Done(fusefs.Event{Op: event.OpSymlink, File: link, Caller: h.by, Path: "node_modules/link", Target: "x", Stat: st, Class: ignore.Excluded, Class2: ignore.Excluded, Time: time.Now()})
	h.node("node_modules").rename("moved", nil)
	h.c.Found(link, "moved/link", "x", st)
	if !slices.ContainsFunc(h.log(), func(e entry) bool { return e.Path == "moved/link" && e.Target == "x" }) {
		t.Error("the symlink is not recorded")
	}
}

// A rule with a slash no longer matched a file after its directory had been renamed. The last scan
// had skipped the file, but its content was thought to be stored, so a write destroyed it. Content
// that the rename does not make tracked is still not copied.
func TestDirectoryThatLeavesItsRules(t *testing.T) {
	for _, c := range []struct {
		rules, from, to string
		hidden          bool
	}{
		{"/a/f\n", "a", "c", true},
		{"a/*.x\n!/c/f\n", "a", "c", true},
		{"**/b/f\n", "a/b", "a/c", true},
		{"/c/f\n", "a", "b", false},
		{"*.x\n/d/f\n", "a", "c", false},
	} {
		m := mount(t, map[string]string{".git/HEAD": "ref: refs/heads/main\n", ".gitignore": c.rules, c.from + "/f": "precious"}, nil)
		m.c.BaselineDone(time.Now().Add(time.Hour))
		m.sh("mv " + c.from + " " + c.to + "; printf x >" + c.to + "/f")
		log := m.end()
		if c.hidden {
			wantVersions(t, log, c.to+"/f", "precious", "x")
		} else {
			wantVersions(t, log, c.to+"/f", "x")
		}
		asked := slices.ContainsFunc(log, func(e entry) bool { return e.Kind == spool.KindBeside && e.Op == event.OpBaseline })
		if asked != c.hidden {
			t.Errorf("rules %q, %s renamed to %s: a scan is requested: %v", c.rules, c.from, c.to, asked)
		}
	}
}
