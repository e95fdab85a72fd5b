package capture

import "testing"

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
