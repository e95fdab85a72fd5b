package capture

import (
	"testing"

	"cachebro/store/leaf/attrs"
	"cachebro/store/leaf/event"

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
