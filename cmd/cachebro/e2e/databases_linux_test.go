package e2e

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// holdsOpen starts a shell that has a file open for reading and writing until the test ends.
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

// TestDatabaseOpenBeforeMount: a server that had its database open before the mount used to go on
// bypassing the mount, so both sides damaged the database. Now mount names the database and
// refuses, unless --beside is given.
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
	if out := p.cb("status", "--dir", p.dir); !strings.Contains(out, "bypass:") {
		t.Errorf("status says nothing of the server:\n%s", out)
	}
}

// TestSQLiteOnBothSides: two writers on the mount and two that bypass it write rows. Their
// connections make one transaction or many. While locks were local to the mount, both sides
// reported success although the database was malformed. Both sides can use a database with a
// rollback journal at the same time. A database with a write-ahead log is used by one side at a
// time, and the other side is refused. No row whose commit succeeded may be missing.
// CACHEBRO_BESIDE=5m makes the test longer.
func TestSQLiteOnBothSides(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can bind a directory")
	}
	length := 3 * time.Second
	if d, err := time.ParseDuration(os.Getenv("CACHEBRO_BESIDE")); err == nil {
		length = d
	}
	for _, mode := range []string{"delete", "wal"} {
		t.Run("root/"+mode, func(t *testing.T) {
			p := newProject(t, nil)
			run := func(args ...string) (string, error) {
				out, err := exec.Command("sqlite3", args...).CombinedOutput()
				return string(out), err
			}
			sqliteOnBothSides(p, mode, length, run, func() string {
				p.mount()
				return p.bind()
			})
		})
		t.Run("user/"+mode, func(t *testing.T) {
			u := newUsers(t, someUser)
			run := func(args ...string) (string, error) {
				return u.try(someUser, "cd /; exec sqlite3 '"+strings.Join(args, "' '")+"'")
			}
			sqliteOnBothSides(u.project, mode, length, run, func() string {
				beside := u.namespace(someUser)
				u.as(someUser, "cd /; $CB mount $P")
				return beside
			})
		})
	}
}

// sqliteOnBothSides runs the scenario. run runs the sqlite3 program, and mount mounts the project
// and returns its directory as seen bypassing the mount.
func sqliteOnBothSides(p *project, mode string, length time.Duration, run func(args ...string) (string, error), mount func() string) {
	t := p.t
	t.Helper()
	sqlite := func(db, script string) string {
		t.Helper()
		out, err := run("-cmd", ".timeout 10000", db, script)
		if err != nil {
			t.Fatalf("sqlite3: %v\n%s", err, out)
		}
		return strings.ReplaceAll(out, "\r", "")
	}
	sqlite(p.path("d.db"), "pragma journal_mode="+mode+"; create table t(a, b);")
	beside := mount()
	end := time.Now().Add(length)
	done := make(chan writerResult)
	for i := range 4 {
		name := filepath.Join([]string{p.dir, beside}[i%2], "d.db")
		go func() { done <- writeRows(name, i, end, run) }()
	}
	acked, refusals := map[string]bool{}, map[string]int{}
	for range 4 {
		r := <-done
		for _, row := range r.acked {
			acked[row] = true
		}
		for why, n := range r.refused {
			refusals[why] += n
		}
		if mode == "delete" && len(r.acked) == 0 {
			t.Errorf("writer %d wrote nothing: %v", r.writer, r.refused)
		}
	}
	t.Logf("%d rows were written, refused: %v", len(acked), refusals)
	if len(acked) == 0 {
		t.Error("not one row was written")
	}
	for why := range refusals {
		if why != "database is locked" && why != "locking protocol" {
			t.Errorf("refused with %q", why)
		}
	}
	for _, dir := range []string{p.dir, beside} {
		db := filepath.Join(dir, "d.db")
		if got := sqlite(db, "pragma integrity_check;"); got != "ok\n" {
			t.Errorf("integrity: %s", got)
		}
		lost := maps.Clone(acked)
		for row := range strings.Lines(sqlite(db, "select a, b from t;")) {
			delete(lost, strings.TrimSpace(row))
		}
		if len(lost) > 0 {
			t.Errorf("%d rows were acknowledged and are not there: %v", len(lost), lost)
		}
	}
}

type writerResult struct {
	writer  int
	acked   []string
	refused map[string]int
}

// writeRows inserts rows with the sqlite3 program until the time end. Each of its connections makes
// one transaction or ten.
func writeRows(db string, writer int, end time.Time, run func(args ...string) (string, error)) writerResult {
	r := writerResult{writer: writer, refused: map[string]int{}}
	for row := 0; time.Now().Before(end); {
		var script strings.Builder
		var rows []string
		for range 1 + 9*(len(r.acked)/10%2) {
			fmt.Fprintf(&script, "insert into t values(%d, %d);\n", writer, row)
			rows = append(rows, fmt.Sprintf("%d|%d", writer, row))
			row++
		}
		out, err := run("-bail", "-cmd", ".timeout 2000", db, script.String())
		if err == nil {
			r.acked = append(r.acked, rows...)
			continue
		}
		// Some of these rows may be in the database nevertheless. Only rows whose commit succeeded must be.
		_, why, _ := strings.Cut(strings.TrimSpace(out), ": ")
		why = strings.TrimPrefix(strings.TrimPrefix(why, "stepping, "), "in prepare, ")
		if before, _, ok := strings.Cut(why, " ("); ok {
			why = before
		}
		r.refused[why]++
	}
	return r
}
