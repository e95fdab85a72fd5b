package e2e

import (
	"testing"
)

// If an exchange moves an ignored file to a tracked name, the file gets a version. Its content
// was in no version before.
func TestExchangeBetweenClasses(t *testing.T) {
	p := newProject(t, map[string]string{".gitignore": "/out\n", "src": "tracked\n", "out": "ignored\n"})
	p.mount()
	if err := exchange(p.path("src"), p.path("out")); err != nil {
		t.Fatal(err)
	}
	if got := p.cb("show", p.path("src")); got != "ignored\n" {
		t.Errorf("src is shown as %q", got)
	}
	// The history has nothing of the ignored name before that, and undo says so.
	_, _ = p.try("undo", "--dir", p.dir, "--last", "--yes")
	if got := p.sh("cat src"); got != "tracked\n" {
		t.Errorf("undone, src is %q", got)
	}
}
