package e2e

import (
	"errors"
	"os"
	"testing"
	"time"
)

// If an exchange moves an ignored file to a tracked name, the file gets a version, because no
// earlier version has its content.
func TestExchangeBetweenClasses(t *testing.T) {
	p := newProject(t, map[string]string{".gitignore": "/out\n", "src": "tracked\n", "out": "ignored\n"})
	p.mount()
	if err := exchange(p.path("src"), p.path("out")); err != nil {
		t.Fatal(err)
	}
	if got := p.cb("show", p.path("src")); got != "ignored\n" {
		t.Errorf("src is shown as %q", got)
	}
	// The history has no earlier version of the ignored file, and undo says so.
	_, _ = p.try("undo", "--dir", p.dir, "--last", "--yes")
	if got := p.sh("cat src"); got != "tracked\n" {
		t.Errorf("undone, src is %q", got)
	}
}

// An ignored file has two names, and the mount has seen only one of them. That name is removed, and
// the other name is exchanged. The history used to miss which file had the other name, so the undo
// removed the wrong file.
func TestUndoOfExchangeByAnUnseenName(t *testing.T) {
	p := newProject(t, map[string]string{".gitignore": "/lib\n*.ign\n", "lib/a": "a\n", "tmp/y.ign": "y\n"})
	if err := os.Link(p.path("lib/a"), p.path("e")); err != nil {
		t.Fatal(err)
	}
	p.mount()
	f, err := os.OpenFile(p.path("e"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	before := time.Now()
	err = errors.Join(os.Remove(p.path("e")), exchange(p.path("lib/a"), p.path("tmp/y.ign")), os.RemoveAll(p.path("tmp")))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = p.try("undo", "--dir", p.dir, "--since", before.Format(time.RFC3339Nano), "--yes")
	if got := p.sh("cat lib/a e tmp/y.ign"); got != "a\na\ny\n" {
		t.Errorf("undone, the three files are %q", got)
	}
}
