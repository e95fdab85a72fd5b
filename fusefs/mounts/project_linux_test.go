package mounts

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cachebro/store/leaf/procfs"
)

func TestTop(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"repo/.git", "repo/a/b", "repo/.git/hooks", "repo/tree/c", "plain/d", "fake/.git"} {
		if err := os.MkdirAll(filepath.Join(base, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"repo/.git/HEAD": "ref: refs/heads/main\n", "repo/tree/.git": "gitdir: ../.git/worktrees/tree\n"} {
		if err := os.WriteFile(filepath.Join(base, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for dir, want := range map[string]string{
		"repo": "repo", "repo/a/b": "repo", "repo/tree/c": "repo/tree",
		"repo/.git/hooks": "", "plain/d": "", "fake": "",
	} {
		top, ok := Top(filepath.Join(base, dir))
		if got := Rel(top, base); ok != (want != "") || ok && got != want {
			t.Errorf("%s: %q, %v; want %q", dir, got, ok, want)
		}
	}
}

func TestWithin(t *testing.T) {
	for _, c := range []struct {
		path, dir string
		want      bool
	}{
		{"/a/b", "/a", true}, {"/a", "/a", true}, {"/ab", "/a", false}, {"/", "/a", false}, {"/a", "/", true}, {"/a b/c", "/a b", true},
	} {
		if got := Within(c.path, c.dir); got != c.want {
			t.Errorf("Within(%q, %q) = %v", c.path, c.dir, got)
		}
	}
}

func TestParseMounts(t *testing.T) {
	table := "36 25 0:52 / /tmp/my\\040project rw,nosuid,nodev,relatime shared:20 master:3 - fuse.cachebro /tmp/my\\040project rw,user_id=1000,group_id=1000,default_permissions\n" +
		"37 25 8:1 /home /home rw,relatime - ext4 /dev/sda1 rw\n" +
		"a line that is not one\n" +
		"38 36 0:53 / /tmp/my\\040project/in\\134side rw - tmpfs tmpfs rw\n"
	mounts := parseMounts(table)
	if len(mounts) != 3 {
		t.Fatalf("%+v", mounts)
	}
	m := mounts[0]
	if m.Point != "/tmp/my project" || m.Source != "/tmp/my project" || m.Type != FSType || m.UID != 1000 || m.ID != 36 || m.Dev != "0:52" {
		t.Errorf("%+v", m)
	}
	if mounts[2].Point != `/tmp/my project/in\side` {
		t.Errorf("%+v", mounts[2])
	}
	if got, ok := Above(mounts, "/tmp/my project/x"); !ok || got.ID != 36 {
		t.Errorf("above: %+v", got)
	}
	if got, ok := Below(mounts, "/tmp"); !ok || got.ID != 36 {
		t.Errorf("below: %+v", got)
	}
	if _, ok := At(mounts, "/tmp"); ok {
		t.Error("nothing is mounted on /tmp")
	}
}

// TestScan finds a process by its working directory and by an open file.
func TestScan(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	start := func(cwd, script string) *exec.Cmd {
		cmd := exec.Command("sh", "-c", script)
		cmd.Dir = cwd
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { in.Close(); _ = cmd.Wait() })
		if _, err := out.Read(make([]byte, 3)); err != nil { // by now the process is in its directory
			t.Fatal(err)
		}
		return cmd
	}
	standing := start(dir, "echo on; read x")
	writing := start("/", "exec 3>>"+dir+"/f; echo on; read x")
	reading := start("/", "exec 3<"+dir+"/f; echo on; read x")
	found := map[int]string{}
	for _, p := range Scan(dir, nil, false, nil) {
		found[p.PID] = p.How
	}
	if found[standing.Process.Pid] != "working directory" || found[writing.Process.Pid] != "open file" {
		t.Errorf("found %v, want %d and %d", found, standing.Process.Pid, writing.Process.Pid)
	}
	if how, ok := found[reading.Process.Pid]; ok {
		t.Errorf("a reader counts as %s", how)
	}
	if got := Scan(dir, nil, false, func(int) bool { return true }); len(got) > 0 {
		t.Errorf("not skipped: %v", got)
	}
	if d := Describe(Scan(dir, nil, false, nil), 1); !strings.Contains(d, "and 1 more") {
		t.Errorf("described as %q", d)
	}
}

func TestRunning(t *testing.T) {
	st, err := procfs.ReadStat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	start := st.Start
	if !Running(os.Getpid(), 0) || !Running(os.Getpid(), start) || Running(os.Getpid(), start+1) || Running(0, 0) {
		t.Error("this process runs, with its own start time and no other")
	}
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(5 * time.Second); Running(cmd.Process.Pid, 0); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a zombie counts as running")
		}
	}
	_ = cmd.Wait()
}

func TestAnswers(t *testing.T) {
	if err := Answers(t.TempDir(), time.Second); err != nil {
		t.Error(err)
	}
}
