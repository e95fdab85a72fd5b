package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestWhatCannotComeBackIsNamed: an undo used to say that all was done although excluded or too
// large files were lost. Such files are named by directory, with counts, bytes and the reason.
func TestWhatCannotComeBackIsNamed(t *testing.T) {
	files := map[string]string{
		".gitignore": "node_modules/\nbuild/\n.venv/\nenv/\n", "package.json": "{}\n", "src/a": "a\n",
		"node_modules/x/index.js": strings.Repeat("x", 2000), "node_modules/x/y/z.js": strings.Repeat("y", 3000), "node_modules/.bin/tool": "t",
		"vendor/lib/.git/HEAD": "ref: refs/heads/main\n", "vendor/lib/.git/objects/ab/cd": strings.Repeat("o", 5000), "vendor/lib/lib.c": "lib\n",
		".venv/pyvenv.cfg": "home = /usr\n", ".venv/lib/m.py": "m\n",
		"env/pyvenv.cfg": "home = /usr\n", "env/m.py": "m\n", "env/lib/n.py": "n\n",
		"build/small": "small\n",
	}
	p := newProject(t, files)
	for i := range 12 { // sparse files that are larger than the limit for ignored files
		name := p.path(fmt.Sprintf("build/obj/%d/big", i%3))
		if err := os.MkdirAll(name, 0o755); err != nil {
			t.Fatal(err)
		}
		name += fmt.Sprintf("/%d", i)
		p.sh("truncate -s 9M " + name)
	}
	p.mount()
	x := &twoActors{p: p}
	x.as("agent", "rm -rf node_modules vendor/lib .venv build; echo changed >src/a; rm env/m.py; rm env/pyvenv.cfg; rm -rf env")
	cmd := p.command("undo", "--dir", p.dir, "--session", "agent", "--yes")
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("undo: %v", err)
	}
	for _, want := range []string{
		"lost node_modules: 3 files, 4.9 KiB: excluded from the history",
		"lost vendor/lib/.git: 2 files, 4.9 KiB: git's own; restore with: cachebro undo --git",
		"lost .venv: 2 files, 14 bytes: excluded from the history",
		"lost env: 1 file, 2 bytes: excluded from the history",
		"lost build/obj/0/big: 4 files, 36.0 MiB: too large",
		"lost build/obj/2/big: 4 files, 36.0 MiB: too large",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("not said: %s", want)
		}
	}
	if t.Failed() {
		t.Logf("%s", out)
	}
	for name, text := range map[string]string{"src/a": "a\n", "vendor/lib/lib.c": "lib\n", "build/small": "small\n", "env/lib/n.py": "n\n", "env/pyvenv.cfg": "home = /usr\n"} {
		if b, err := os.ReadFile(p.path(name)); err != nil || string(b) != text {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	// A restore reports such files too, but only those that were lost after its moment.
	x.as("other", "rm -rf src; mkdir -p node_modules/q; echo q >node_modules/q/r; rm -rf node_modules")
	at := p.newest()
	if out, err := p.try("restore", "--dir", p.dir, "--at", at, "--yes"); err != nil {
		t.Errorf("nothing was lost since: %v\n%s", err, out)
	}
	if out := p.refuseOut(1, "restore", "--dir", p.dir, "--at", "#1", "--yes"); !strings.Contains(out, "lost node_modules: ") {
		t.Errorf("restore: %s", out)
	}
}

// refuseOut runs cachebro, which must end with this status, and returns its stdout.
func (p *project) refuseOut(code int, args ...string) string {
	p.t.Helper()
	cmd := p.command(args...)
	out, err := cmd.Output()
	if cmd.ProcessState.ExitCode() != code {
		p.t.Fatalf("cachebro %q: %v, want exit status %d\n%s", args, err, code, out)
	}
	return string(out)
}
