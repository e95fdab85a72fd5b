package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// movedCases are what people do to directories that hold tracked files and ignored ones that were
// never read.
var movedCases = []string{
	`mv s n; rm -rf n`,
	`mv s n; mv n m; rm -rf m`,
	`exchange s o`,
	`exchange s o; rm -rf s`,
	`exchange s f; rm -rf f`,
	`mv s/deep/x.ign kept; mv s n; rm -rf n`,
	`mv s n; mv o s; mv n o; rm -rf s`,
	`mv s n; mkdir s; echo new >s/t1`,
	`mv s n; mv o s; rm -rf n s`,
	`mv s/ign n; rm -rf n`,
	`rm -rf s`,
	`mv s n; echo new >n/t1; echo new >n/deep/x.ign`,
	`mv s n; rm n/t1; mv n/ign/i1 n/new`,
	`mv s/deep o/deep2; exchange s o; rm -rf o`,
	`mv s/t1 s/deep/x.ign`,
	`exchange s/t1 o; rm -rf s`,
	`mv s n; mv n/ign n2; mv n s`,
	`mv o s/ign/o; rm -rf s`,
	`mv s n; exchange n o; mv o p; rm -rf p n`,
	`mv s n; exchange n/t1 n/deep; rm -rf n/t1`,
	`mv s o/s; mv o q; rm -rf q`,
	`mv s/ign/i1 s/ign/i; mv s/ign n`,
	`exchange s/ign/sub o/y.ign`,
	`exchange s/ign/sub o/y.ign; rm -rf o/y.ign`,
	`mv s/ign/sub s/ign/n; mv s/deep/x.ign s/ign/n/i2`,
	`mv s/ign n; chmod 700 n/sub; echo new >n/sub/i2; mv n/sub m`,
	`exchange s/ign/sub s/deep; chmod 600 s/deep/i2`,
}

// TestUndoAndRestoreOfMovedDirectories: each directory comes back exactly, disappears again and
// comes back again, whatever it contains.
func TestUndoAndRestoreOfMovedDirectories(t *testing.T) {
	t.Parallel()
	files := map[string]string{".gitignore": "ign/\n*.ign\nonly/\n"}
	for i := range movedCases {
		d := fmt.Sprintf("c%d/", i)
		for _, name := range []string{"s/t1", "s/deep/t2", "s/deep/x.ign", "s/ign/i1", "s/ign/sub/i2", "s/only/i3", "o/t3", "o/y.ign", "o/ign/i4", "f"} {
			files[d+name] = d + name + "\n"
		}
	}
	p := newProject(t, files)
	for i := range movedCases {
		if err := os.Mkdir(p.path(fmt.Sprintf("c%d/s/empty", i)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p.mount()
	x := &twoActors{p: p}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	exchange := fmt.Sprintf("exchange() { printf 'exchange\\000%%s\\000%%s\\n' $1 $2 | %s %s; }; ", self, workerArg)
	for i, script := range movedCases {
		t.Run(strings.ReplaceAll(script, "/", "|"), func(t *testing.T) {
			dir, session := fmt.Sprintf("c%d", i), fmt.Sprintf("session-%d", i)
			part := func() map[string]string { return treeOf(t, p.path(dir)) }
			check := func(what string, want map[string]string, args ...string) {
				t.Helper()
				args = append(args, "--dir", p.dir, "--yes")
				if out, err := p.try(args...); err != nil {
					t.Errorf("%s: %v\n%s", what, err, out)
				}
				if d := differ(want, part()); d != "" {
					t.Errorf("%s:\n%s", what, d)
				}
			}
			before := part()
			at := p.newest()
			x.as(session, "cd "+dir+"; "+exchange+script)
			after := part()
			check("undo", before, "undo", "--session", session)
			check("redo", after, "redo")
			check("undo again", before, "undo", "--session", session)
			check("redo again", after, "redo")
			check("restore", before, "restore", "--at", at)
		})
	}
	if out := p.cb("store", "fsck", "--dir", p.dir); !strings.Contains(out, "in order") {
		t.Errorf("fsck: %s", out)
	}
}

// newest returns the number of the newest version, in the form that restore accepts. It waits for a
// first version, because the baseline may still be running.
func (p *project) newest() string {
	p.t.Helper()
	var all []entry
	eventually(p.t, time.Minute, "a first version", func() bool { all = p.log("", "--baselines"); return len(all) > 0 })
	return fmt.Sprintf("#%d", all[len(all)-1].Seq)
}

// treeOf returns every path below a directory with its kind, mode and content.
func treeOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	x := &twoActors{p: &project{t: t, dir: dir}}
	return x.tree()
}

// TestUndoOfMovedDirectoriesWithoutMount undoes moves of directories without a mount, so nothing
// records the changes of the undo.
func TestUndoOfMovedDirectoriesWithoutMount(t *testing.T) {
	p := newProject(t, map[string]string{
		".gitignore": "ign/\n*.ign\n", "s/t1": "1\n", "s/deep/t2": "2\n", "s/deep/x.ign": "x\n", "s/ign/i1": "i\n", "o/t3": "3\n", "o/y.ign": "y\n", "q/t4": "4\n",
	})
	p.mount()
	x := &twoActors{p: p}
	before := x.tree()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	x.as("agent", fmt.Sprintf(`mv s n; rm n/deep/t2; mv n/deep d; printf 'exchange\000o\000q\n' | %s %s; echo new >n/new`, self, workerArg))
	after := x.tree()
	p.cb("umount", p.dir)
	for range 2 {
		p.cb("undo", "--dir", p.dir, "--session", "agent", "--yes")
		if d := differ(before, x.tree()); d != "" {
			t.Errorf("undo:\n%s", d)
		}
		p.cb("redo", "--dir", p.dir, "--yes")
		if d := differ(after, x.tree()); d != "" {
			t.Errorf("redo:\n%s", d)
		}
	}
}

// TestUndoOfMovedIgnoredFiles: ignored files that were created under the mount have versions
// without content. Their contents are saved when they are destroyed, under their names at that
// time. The undo used to look for them under the earlier names.
func TestUndoOfMovedIgnoredFiles(t *testing.T) {
	t.Parallel()
	p := newProject(t, map[string]string{".gitignore": "*.ign\n"})
	p.mount()
	x := &twoActors{p: p}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	exchange := fmt.Sprintf("exchange() { printf 'exchange\\000%%s\\000%%s\\n' $1 $2 | %s %s; }; ", self, workerArg)
	for i, script := range []string{
		`mv s n; rm n/deep/b.ign`,
		`mv s n; rm -rf n`,
		`mv s n; mv n u/n; mv u/n/deep d; rm d/b.ign`,
		`mv s/a.ign s/c.ign; rm s/c.ign`,
		`mv s/a.ign u/; echo more >>u/a.ign`,
		`chmod 600 s/a.ign; rm s/a.ign`,
		`mv s n; chmod 600 n/a.ign; rm n/a.ign`,
		`exchange s u; rm u/a.ign; rm -rf u/deep`,
		`exchange s/a.ign t; rm t`,
		`mv s/a.ign kept; rm kept`,
		`mv s n; mv n s; echo more >>s/a.ign`,
		`mv s n; echo other >n/a.ign`,
	} {
		t.Run(strings.ReplaceAll(script, "/", "|"), func(t *testing.T) {
			dir, session := fmt.Sprintf("c%d", i), fmt.Sprintf("session-%d", i)
			p.sh(fmt.Sprintf("mkdir -p %[1]s/s/deep %[1]s/u; cd %[1]s; echo %[1]s t >t; echo %[1]s a >s/a.ign; echo %[1]s b >s/deep/b.ign; echo tracked >s/t1", dir))
			part := func() map[string]string { return treeOf(t, p.path(dir)) }
			before := part()
			x.as(session, "cd "+dir+"; "+exchange+script)
			after := part()
			for _, turn := range []struct {
				args string
				want map[string]string
			}{{"undo --session " + session, before}, {"redo", after}, {"undo --session " + session, before}} {
				out, err := p.try(append(strings.Fields(turn.args), "--yes", "--dir", p.dir)...)
				if d := differ(turn.want, part()); d != "" || err != nil {
					t.Errorf("%s: %v\n%s\n%s", turn.args, err, d, out)
				}
			}
		})
	}
}
