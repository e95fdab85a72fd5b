package e2e

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestAuthorsSurviveMountdKilled: files are open when mountd or the store daemon is killed. When
// they are finally closed, their authors are still known, and the session's changes are undone as a
// whole. The scan after the kill leaves open files alone.
func TestAuthorsSurviveMountdKilled(t *testing.T) {
	files := map[string]string{}
	for i := range 8 {
		files[fmt.Sprintf("old%d", i)] = "old\n"
	}
	p := newProject(t, files)
	for _, name := range []string{"oldlink6", "oldlink7"} { // further names of files that are being written
		if err := os.Link(p.path("old"+name[7:]), p.path(name)); err != nil {
			t.Fatal(err)
		}
	}
	p.mount()
	p.rescanned(0)
	for _, name := range []string{"oldlink6", "oldlink7"} {
		if _, err := os.Stat(p.path(name)); err != nil {
			t.Fatal(err)
		}
	}
	for round, victim := range []string{"mountd", "daemon"} {
		session := fmt.Sprint("S", round)
		w := startWorker(t, "CLAUDE_CODE_SESSION_ID="+session)
		do := func(parts ...string) {
			t.Helper()
			if parts[1] = p.path(parts[1]); parts[0] == "rename" {
				parts[2] = p.path(parts[2])
			}
			if out := w.do(parts...); out != "ok" {
				t.Fatalf("%q: %s", parts, out)
			}
		}
		var open []string
		hold := func(kind string, n int) { // makes n files and keeps them open
			for i := range n {
				name := fmt.Sprintf("%s%d-%d", kind, round, i)
				do("make", name, "new\n")
				open = append(open, name)
			}
		}
		do("mkdir", "dir")
		hold("idle", 4)
		hold("dir/f", 2)
		do("hold", "old0")
		do("poke", "old0", "WRITTEN")
		open = append(open, "old0")
		if round == 0 {
			time.Sleep(2600 * time.Millisecond) // long enough for the files so far to be captured while open
		}
		hold("fresh", 20)
		for i := 1; i < 8; i++ {
			name := fmt.Sprint("old", i)
			do("hold", name)
			do("poke", name, "WRITTEN")
			open = append(open, name)
		}
		pid := p.process(victim)
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		hold("after", 4)
		do("rename", "dir", "moved")
		p.rescanned(pid)
		for i, name := range open {
			if i%2 == 0 {
				if strings.HasPrefix(name, "dir/") {
					name = "moved" + name[3:]
				}
				if text, err := os.ReadFile(p.path(name)); err != nil || !strings.HasPrefix(string(text), "new") && !strings.HasPrefix(string(text), "WRITTEN") {
					t.Errorf("%s: %q, %v", name, text, err)
				}
				continue
			}
			do("poke", name, "MORE")
		}
		for _, name := range open {
			do("drop", name)
		}
		w.stop()
		p.cb("undo", "--session", session, "--dir", p.dir, "--yes")
		left, err := os.ReadDir(p.dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range left {
			if !strings.HasPrefix(e.Name(), "old") {
				t.Errorf("%s killed: %s is left", victim, e.Name())
				p.sh("rm -rf " + e.Name())
			} else if text, err := os.ReadFile(p.path(e.Name())); err != nil || string(text) != "old\n" {
				t.Errorf("%s killed: %s: %q, %v", victim, e.Name(), text, err)
				p.write(e.Name(), "old\n")
			}
		}
	}
}

// rescanned waits until the first scan of the mount is done or, if after is not 0, the scan that
// follows the death of the process with this pid.
func (p *project) rescanned(after int) {
	p.t.Helper()
	eventually(p.t, 60*time.Second, "the scan is done", func() bool {
		if after != 0 && syscall.Kill(after, 0) == nil {
			return false
		}
		out, err := p.try("status", "-v", "--dir", p.dir)
		return err == nil && strings.Contains(out, "baseline: done")
	})
}
