package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// cutShort deletes many files as a session, and kills the undo of the deletions as soon as the
// first files are back.
func cutShort(t *testing.T, many int) (x *twoActors, before, after map[string]string) {
	t.Helper()
	files := map[string]string{"stays": "here\n"}
	for i := range many {
		files[fmt.Sprintf("d/%d/f%d", i%10, i)] = strings.Repeat(fmt.Sprintf("line of %d\n", i), 50)
	}
	p := newProject(t, files)
	p.mount()
	x = &twoActors{p: p}
	before = x.tree()
	x.as("agent", "rm -rf d && echo changed >stays")
	after = x.tree()
	// On a busy machine the undo may end before it can be killed. Then try again.
	for range 20 {
		undo := p.command("undo", "--dir", p.dir, "--session", "agent", "--yes")
		if err := undo.Start(); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			if _, err := os.Lstat(p.path("d/5")); err == nil {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("nothing comes back")
			}
		}
		_ = undo.Process.Kill() // it may have ended
		_ = undo.Wait()
		if d := differ(before, x.tree()); d != "" {
			return x, before, after
		}
		p.cb("redo", "--dir", p.dir, "--yes")
	}
	t.Fatal("the undo was always over before it could be killed")
	return nil, nil, nil
}

// TestKilledUndoIsFinished: the next command that changes something (a mount or an undo) finishes a
// confirmed plan, and redo reverses all of it. Whoever repeats an undo that was killed wants that
// undo. The second one used to undo the action before it as well.
func TestKilledUndoIsFinished(t *testing.T) {
	for _, next := range []string{"mount", "undo"} {
		t.Run(next, func(t *testing.T) {
			t.Parallel()
			x, before, after := cutShort(t, 1200)
			p := x.p
			args := []string{"undo", "--dir", p.dir, "--yes"}
			if next == "mount" {
				p.cb("umount", p.dir)
				args = []string{"mount", p.dir}
			}
			out, err := p.try(args...)
			if err != nil || !strings.Contains(out, "completed an operation that was interrupted") {
				t.Errorf("%v\n%s", err, out)
			}
			if d := differ(before, x.tree()); d != "" {
				t.Errorf("after the %s:\n%s", next, d)
			}
			p.cb("redo", "--dir", p.dir, "--yes")
			if d := differ(after, x.tree()); d != "" {
				t.Errorf("redo of a resumed undo:\n%s", d)
			}
		})
	}
}

func TestKilledUndoIsRolledBack(t *testing.T) {
	t.Parallel()
	x, before, after := cutShort(t, 1200)
	p := x.p
	p.cb("undo", "--dir", p.dir, "--rollback", "--yes")
	if d := differ(after, x.tree()); d != "" {
		t.Errorf("rolled back:\n%s", d)
	}
	if out := p.cb("undo", "--dir", p.dir, "--rollback", "--yes"); !strings.Contains(out, "there is no interrupted undo") {
		t.Errorf("a second rollback: %s", out)
	}
	p.cb("undo", "--dir", p.dir, "--session", "agent", "--yes")
	if d := differ(before, x.tree()); d != "" {
		t.Errorf("undone after the rollback:\n%s", d)
	}
}

// TestHistoryOutlivesUndo: an undo restores a deleted file by renaming a new one to its name. It
// is still the same file: its history continues, and does not start again with the temporary file.
func TestHistoryOutlivesUndo(t *testing.T) {
	p := newProject(t, map[string]string{"a": "1\n2\n"})
	p.mount()
	x := &twoActors{p: p}
	x.as("first", "echo 3 >>a")
	x.as("second", "rm a")
	p.cb("undo", "--dir", p.dir, "--session", "second", "--yes")
	p.wantContents("a", "1\n2\n", "1\n2\n3\n", "1\n2\n3\n")
	if out := p.cb("blame", p.path("a")); !strings.Contains(out, "found there") || !strings.Contains(out, "first") {
		t.Errorf("blame:\n%s", out)
	}
	x.as("third", "sed -i s/1/one/ a")
	out := p.cb("log", "-p", "-n", "1", p.path("a"))
	if !strings.Contains(out, "-1\n+one\n") || strings.Contains(out, "not one of") {
		t.Errorf("the diff of an atomic save:\n%s", out)
	}
}

// TestRedoWithoutMount: without a mount, the daemon must scan to find what the undo wrote.
func TestRedoWithoutMount(t *testing.T) {
	p := newProject(t, map[string]string{"a": "1\n"})
	p.mount()
	x := &twoActors{p: p}
	x.as("agent", "echo 2 >a")
	p.cb("umount", p.dir)
	p.cb("undo", "--dir", p.dir, "--session", "agent", "--yes")
	if got := x.tree()["a"]; !strings.HasSuffix(got, " 1\n") {
		t.Errorf("undone: %q", got)
	}
	p.cb("redo", "--dir", p.dir, "--yes")
	if got := x.tree()["a"]; !strings.HasSuffix(got, " 2\n") {
		t.Errorf("redone: %q", got)
	}
}

// TestCopiedStateCarriesNothingOut: a project gets a copy of another project's history, with a plan
// that is under way. The next mount used to carry out the plan in this project, without asking.
func TestCopiedStateCarriesNothingOut(t *testing.T) {
	x, _, after := cutShort(t, 1200)
	p := x.p
	p.cb("umount", p.dir)
	other := filepath.Join(p.base, "other")
	if out, err := exec.Command("cp", "-a", p.dir, other).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Cleanup(func() { _, _ = p.try("umount", other) }) // before the project is cleaned up
	p.cb("mount", other)
	p.cb("umount", other)
	state := func(name string) string {
		dirs, err := filepath.Glob(filepath.Join(p.base, "state/cachebro", name+"-*"))
		if err != nil || len(dirs) != 1 {
			t.Fatalf("%v %v", dirs, err)
		}
		return dirs[0]
	}
	for _, pid := range p.processes() { // the daemons
		_ = syscall.Kill(pid, syscall.SIGTERM)
	}
	eventually(t, 60*time.Second, "the daemons end", func() bool { return len(p.processes()) == 0 })
	for _, part := range []string{"store", "spool"} {
		from, to := filepath.Join(state("project"), part), filepath.Join(state("other"), part)
		if err := os.RemoveAll(to); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	tree := func() map[string]string { y := *x; q := *p; q.dir, y.p = other, &q; return y.tree() }
	before := tree()
	if out, err := p.try("mount", other); err != nil || strings.Contains(out, "completed an operation that was interrupted") {
		t.Errorf("mount: %v\n%s", err, out)
	}
	if d := differ(before, tree()); d != "" {
		t.Errorf("the mount has changed:\n%s", d)
	}
	if out := p.cb("undo", "--dir", other, "--rollback", "--yes"); !strings.Contains(out, "there is no interrupted undo") {
		t.Errorf("rollback: %s", out)
	}
	if d := differ(before, tree()); d != "" {
		t.Errorf("a rollback has changed:\n%s", d)
	}
	p.cb("umount", other)
	// In its own project the plan can still be ended.
	p.cb("mount", p.dir)
	p.cb("redo", "--dir", p.dir, "--yes")
	if d := differ(after, x.tree()); d != "" {
		t.Errorf("redo of the resumed undo:\n%s", d)
	}
}

// TestKilledUndoLeavesNoTemporaries: the temporary files of an undo are gone after it was
// finished or rolled back, and neither an undo nor a redo restores them. The history used to have a
// version of an empty temporary file.
func TestKilledUndoLeavesNoTemporaries(t *testing.T) {
	files := map[string]string{}
	for i := range 300 {
		files[fmt.Sprintf("d/%d", i)] = strings.Repeat(fmt.Sprintf("line of %d\n", i), 2000*(i%2))
	}
	p := newProject(t, files)
	p.mount()
	x := &twoActors{p: p}
	before := x.tree()
	x.as("agent", "for f in d/*; do echo changed >$f; done")
	after := x.tree()
	temporaries := func() {
		t.Helper()
		n := 0
		for path := range x.tree() {
			if strings.Contains(path, ".cachebro-") {
				n++
				t.Log(path)
			}
		}
		if n > 0 {
			t.Errorf("%d temporary files are left", n)
		}
	}
	for _, end := range []string{"redo", "--rollback"} {
		cut := false
		for try := 0; try < 20 && !cut; try++ {
			undo := p.command("undo", "--dir", p.dir, "--session", "agent", "--yes")
			if err := undo.Start(); err != nil {
				t.Fatal(err)
			}
			killed := false
			for deadline := time.Now().Add(time.Minute); !killed && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
				b, err := os.ReadFile(p.path("d/1"))
				killed = err == nil && len(b) > 1000
			}
			_ = undo.Process.Kill()
			_ = undo.Wait()
			if cut = differ(before, x.tree()) != ""; !cut { // it had ended before
				p.cb("redo", "--dir", p.dir, "--yes")
			}
		}
		if !cut {
			continue
		}
		if end == "redo" { // this finishes the undo first
			p.cb("redo", "--dir", p.dir, "--yes")
		} else {
			p.cb("undo", "--dir", p.dir, "--rollback", "--yes")
		}
		temporaries()
		if d := differ(after, x.tree()); d != "" {
			t.Errorf("%s:\n%s", end, d)
		}
	}
	p.cb("undo", "--dir", p.dir, "--session", "agent", "--yes")
	p.cb("redo", "--dir", p.dir, "--yes")
	temporaries()
	if d := differ(after, x.tree()); d != "" {
		t.Errorf("redo:\n%s", d)
	}
}
