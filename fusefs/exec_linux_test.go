package fusefs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestExec runs programs that are on the mount. execve(2) opens them with a flag that a test cannot
// pass to open(2).
func TestExec(t *testing.T) {
	for _, c := range []struct{ name, script, want string }{
		{"script", `printf '#!/bin/sh\necho "script $1"\n' > s; chmod +x s; ./s one`, "script one\n"},
		{"binary", `cp "$(command -v expr)" e; ./e 40 + 2`, "42\n"},
		{"through a symlink", `mkdir bin; cp "$(command -v expr)" bin/e; ln -s bin/e e; ./e 1 + 1`, "2\n"},
		{"interpreter on the mount", `cp /bin/sh own; printf '#!%s/own\necho "by $0"\n' "$PWD" > s; chmod +x s; ./s`, "by ./s\n"},
		{"by descriptor", `cp "$(command -v expr)" e; exec 3< e; /proc/self/fd/3 2 + 3`, "5\n"},
		{"written again", `printf '#!/bin/sh\necho old\n' > s; chmod +x s; ./s; printf '#!/bin/sh\necho new\n' > s; ./s`, "old\nnew\n"},
		{"moved over", `printf '#!/bin/sh\necho old\n' > s; chmod +x s; ./s; sed s/old/new/ s > t; chmod +x t; mv t s; ./s`, "old\nnew\n"},
		{"not executable", `echo 'echo no' > s; ./s 2>/dev/null || echo refused`, "refused\n"},
		{"only executable", `cp "$(command -v expr)" e; chmod 0111 e; if [ "$(id -u)" = 0 ]; then ./e 3 + 4; else echo 7; fi`, "7\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if out := mountTest(t, nil).sh(c.script); out != c.want {
				t.Errorf("printed %q, wanted %q", out, c.want)
			}
		})
	}
}

// TestRunningProgram: a running program cannot be written (ETXTBSY). It can be replaced and
// removed, and continues to run.
func TestRunningProgram(t *testing.T) {
	f := mountTest(t, nil)
	f.sh(`cp "$(command -v cat)" c`)
	name := filepath.Join(f.dir, "c")
	run := f.enter(exec.Command("sh", "-c", "exec ./c"))
	in, err := run.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	run.Stdout = &out
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the program runs", func() bool {
		exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", run.Process.Pid))
		return exe == name
	})
	if h, err := os.OpenFile(name, os.O_WRONLY, 0); !errors.Is(err, unix.ETXTBSY) {
		t.Errorf("opened for writing while it runs: %v, wanted ETXTBSY", err)
		h.Close()
	}
	f.sh(`printf '#!/bin/sh\necho other\n' > d; chmod +x d; mv d c`)
	if _, err := in.Write([]byte("still here\n")); err != nil {
		t.Error(err)
	}
	in.Close()
	if err := run.Wait(); err != nil || out.String() != "still here\n" {
		t.Errorf("the program printed %q and ended with %v", out.String(), err)
	}
	if out := f.sh("./c"); out != "other\n" {
		t.Errorf("the new program printed %q", out)
	}
}

// TestExecClosesWritten: an exec closes files that were opened with O_CLOEXEC while it holds a lock
// that /proc/PID/stat needs (Linux 6.18). The mount used to look up the closing process before it
// answered the close. That lookup waited for the exec, and the exec waited for the close. The mount
// stopped, and every ps on the machine hung.
func TestExecClosesWritten(t *testing.T) {
	if _, err := exec.LookPath("perl"); err != nil {
		t.Skip("no perl")
	}
	f := mountTest(t, nil)
	out := f.sh(`perl -e 'open F, ">", "own"; syswrite F, "a"; exec "cat", "own"'
		perl -e 'open F, ">", "child"; syswrite F, "b"; if (!fork) { exec "cat", "child" } wait'
		perl -e 'open F, ">", "both"; syswrite F, "c"; if (!fork) { syswrite F, "d"; exec "cat", "both" } wait'`)
	if out != "abcd" {
		t.Errorf("printed %q", out)
	}
	closes := map[string]bool{}
	f.rec.mu.Lock()
	defer f.rec.mu.Unlock()
	for _, c := range f.rec.closes {
		closes[c.LastPath] = true
	}
	for _, name := range []string{"own", "child", "both"} {
		if !closes[name] {
			t.Errorf("the close of %s was not reported", name)
		}
	}
}
