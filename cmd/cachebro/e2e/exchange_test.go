package e2e

import (
	"testing"
)

// What comes under a tracked name from an ignored one, by an exchange, is a
// version; the ignored file's content was in none until then.
func TestExchangeBetweenClasses(t *testing.T) {
	p := newProject(t, map[string]string{".gitignore": "/out\n", "src": "tracked\n", "out": "ignored\n"})
	p.mount()
	if err := exchange(p.path("src"), p.path("out")); err != nil {
		t.Fatal(err)
	}
	if got := p.cb("show", p.path("src")); got != "ignored\n" {
		t.Errorf("src is shown as %q", got)
	}
	// Of the ignored name nothing was kept before, and undo says so.
	_, _ = p.try("undo", "--dir", p.dir, "--last", "--yes")
	if got := p.sh("cat src"); got != "tracked\n" {
		t.Errorf("undone, src is %q", got)
	}
}
