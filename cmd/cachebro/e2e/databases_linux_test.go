package e2e

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// holdsOpen starts a shell that has a file open for reading and writing until the test
// ends.
func (p *project) holdsOpen(file string) *exec.Cmd {
	p.t.Helper()
	cmd := exec.Command("sh", "-c", `exec 3<>"$1"; echo ready; read x`, "sh", file)
	in, err := cmd.StdinPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { in.Close(); _, _ = io.Copy(io.Discard, out); _ = cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		p.t.Fatalf("%q, %v", line, err)
	}
	return cmd
}

// TestDatabaseOpenBeforeMount: a server that had its database open before the mount was
// left beside it, and both sides damaged the database. It is named and the mount is
// refused, unless --beside says otherwise.
func TestDatabaseOpenBeforeMount(t *testing.T) {
	p := newProject(t, map[string]string{"data.db": "x\n"})
	server := p.holdsOpen(p.path("data.db"))
	for _, command := range [][]string{{"mount", p.dir}, {"run", "--dir", p.dir, "--bare", "--", "true"}} {
		cmd := p.command(command...)
		out, err := cmd.CombinedOutput()
		want := fmt.Sprintf("sh (pid %d, open for writing %s)", server.Process.Pid, p.path("data.db"))
		if err == nil || !strings.Contains(string(out), want) || !strings.Contains(string(out), "--beside") {
			t.Errorf("%s: %v\n%s\nwant: %s", command[0], err, out, want)
		}
	}
	p.cb("mount", "--beside", p.dir)
	t.Cleanup(func() { p.cb("umount", "--lazy", p.dir) })
	if out := p.cb("status", p.dir); !strings.Contains(out, "beside:") {
		t.Errorf("status says nothing of the server:\n%s", out)
	}
}

// TestSQLiteOnBothSides: two writers on the mount and two beside it. With locks that were
// the mount's own, both sides reported success and the database was malformed.
func TestSQLiteOnBothSides(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can bind a directory")
	}
	const rows = 25
	for _, mode := range []string{"delete", "wal"} {
		t.Run(mode, func(t *testing.T) {
			p := newProject(t, nil)
			sqlite(t, p.path("d.db"), "pragma journal_mode="+mode+"; create table t(a, b);")
			p.mount()
			beside := p.bind()
			done := make(chan map[string]bool)
			for i := range 4 {
				name := filepath.Join([]string{p.dir, beside}[i%2], "d.db")
				go func() {
					acked := map[string]bool{}
					for row := range rows {
						err := exec.Command("sqlite3", "-cmd", ".timeout 10000", name, fmt.Sprintf("insert into t values(%d, %d);", i, row)).Run()
						if err == nil { // else it was refused, and nothing is promised
							acked[fmt.Sprintf("%d|%d", i, row)] = true
						}
					}
					done <- acked
				}()
			}
			acked := map[string]bool{}
			for range 4 {
				for row := range <-done {
					acked[row] = true
				}
			}
			if len(acked) == 0 {
				t.Error("not one row was written")
			}
			if got := sqlite(t, p.path("d.db"), "pragma integrity_check;"); got != "ok\n" {
				t.Errorf("integrity: %s", got)
			}
			for row := range strings.Lines(sqlite(t, p.path("d.db"), "select a, b from t;")) {
				delete(acked, strings.TrimSpace(row))
			}
			if len(acked) > 0 {
				t.Errorf("%d rows were acknowledged and are not there: %v", len(acked), acked)
			}
			if err := syscall.Unmount(filepath.Dir(beside), 0); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func sqlite(t *testing.T, db, script string) string {
	t.Helper()
	out, err := exec.Command("sqlite3", "-cmd", ".timeout 10000", db, script).CombinedOutput()
	if err != nil {
		t.Fatalf("sqlite3: %v\n%s", err, out)
	}
	s := strings.ReplaceAll(string(out), "\r", "")
	return s
}
