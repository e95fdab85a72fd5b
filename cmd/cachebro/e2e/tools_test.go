package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const gitMe = "git -c user.name=t -c user.email=t@example.org "

// TestGit works on a repository inside the mount as on an ordinary one.
func TestGit(t *testing.T) {
	p := newProject(t, map[string]string{"main.go": "package main\n\nfunc main() {}\n", "go.mod": "module example.org/x\n\ngo 1.21\n",
		"x_test.go": "package main\n\nimport \"testing\"\n\nfunc TestX(t *testing.T) {}\n"})
	p.sh("git init -q . && git add . && " + gitMe + "commit -qm one")
	p.mount()
	p.sh("for i in 1 2 3 4 5; do mkdir -p d$i; for j in 1 2 3 4 5 6 7 8; do seq $i $((i*j*20)) > d$i/f$j; done; git add .; " + gitMe + "commit -qm c$i; done")
	if out := p.sh("git status --porcelain"); out != "" {
		t.Errorf("status is not clean: %s", out)
	}
	p.sh("git checkout -q HEAD~3 && test ! -e d5 && git checkout -q - && test -e d5/f8")
	p.sh("git gc -q && git fsck --strict && git clone -q . inner && diff -r --exclude=.git --exclude=inner . inner")
	p.sh("go build -o /dev/null ./... && go vet . && go test .")
	if out := p.sh("git status --porcelain"); strings.TrimSpace(out) != "?? inner/" {
		t.Errorf("status: %q", out)
	}
	p.sh("git stash -q -u; git stash pop -q; git clean -fdxq; git worktree add -q ../wt HEAD; git worktree remove ../wt")
}

// TestMountGoesToTheTop: a mount on a sub-directory would hide .git from git, so mount mounts the
// top level of the work tree and says so.
func TestMountGoesToTheTop(t *testing.T) {
	p := newProject(t, map[string]string{"packages/app/a.txt": "1\n"})
	p.sh("git init -q .")
	out, err := p.try("mount", p.path("packages/app"))
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !mounted(p.dir) || !strings.Contains(out, p.dir) {
		t.Errorf("mounted %v, said:\n%s", mounted(p.dir), out)
	}
	p.sh("echo 2 > packages/app/a.txt; git status --porcelain")
	p.wantContents("packages/app/a.txt", "1\n", "2\n")
}

// inOwnFuse marks a process of the tests that has its own /dev/fuse.
const inOwnFuse = "CACHEBRO_TEST_OWN_FUSE"

// TestOrdinaryUser does the main work as a user without privileges, with a /dev/fuse that
// everybody may open. It runs in a mount namespace of its own, so the machine is not changed.
func TestOrdinaryUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("is an ordinary user already")
	}
	if os.Getenv(inOwnFuse) == "" {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("../../../scripts/ownfuse.sh", "666", self, "-test.run=^TestOrdinaryUser$", "-test.v")
		cmd.Env = append(os.Environ(), inOwnFuse+"=1", "CACHEBRO_BIN="+binary)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS: TestOrdinaryUser") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	user := "nobody"
	p := newProject(t, map[string]string{"a.txt": "1\n", "b/c.txt": "c\n"})
	bin := filepath.Join(p.base, "cachebro")
	for _, c := range [][]string{{"cp", binary, bin}, {"chmod", "755", p.base, bin}, {"chown", "-R", user + ":", p.base}} {
		if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", c, err, out)
		}
	}
	as := func(script string) string {
		cmd := exec.Command("runuser", "-u", user, "--", "sh", "-ec", script)
		cmd.Dir = "/"
		cmd.Env = append(p.env, "CB="+bin, "P="+p.dir)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", script, err, out)
		}
		return string(out)
	}
	old := binary
	binary = bin // so that cleanup finds the processes
	defer func() { binary = old }()
	as(`$CB mount $P`)
	if !mounted(p.dir) {
		t.Fatal("nothing is mounted")
	}
	if out := as(`cd $P; printf '#!/bin/sh\necho run\n' > s; chmod +x s; ./s; cp "$(command -v expr)" e; ./e 1 + 1; rm s e`); out != "run\n2\n" {
		t.Errorf("programs on the mount printed %q", out)
	}
	as(`cd $P; sed -i s/1/2/ a.txt; rm -r b; echo x > new; mv new n2`)
	if out := as(`$CB log --stat $P`); !strings.Contains(out, "a.txt") || !strings.Contains(out, "sed") {
		t.Errorf("log:\n%s", out)
	}
	if out := as(`$CB revert --yes $P/a.txt; $CB revert --yes $P/b/c.txt; cat $P/a.txt $P/b/c.txt`); !strings.HasSuffix(out, "1\nc\n") {
		t.Errorf("after revert: %q", out)
	}
	as(`$CB umount $P`)
	if mounted(p.dir) {
		t.Error("still mounted")
	}
	for range 100 {
		if len(p.processes()) == 0 {
			break
		}
		for _, pid := range p.processes() {
			if proc, err := os.FindProcess(pid); err == nil {
				_ = proc.Signal(os.Interrupt)
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// TestBadInput: each mistake has its own message and hint and leaves nothing behind.
func TestBadInput(t *testing.T) {
	p := newProject(t, map[string]string{"a.txt": "1\n", "sub/b.txt": "2\n"})
	full := filepath.Join(p.base, "full")
	if err := os.MkdirAll(filepath.Join(full, "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		code int
		args []string
		want string
	}{
		{"missing", 1, []string{"mount", filepath.Join(p.base, "nowhere")}, "nowhere"},
		{"a file", 1, []string{"mount", p.path("a.txt")}, "not a directory"},
		{"not empty", 1, []string{"mount", p.dir, "--at", full}, "not empty"},
		{"inside the source", 1, []string{"mount", p.dir, "--at", p.path("sub")}, "inside"},
		{"unknown command", 2, []string{"frobnicate"}, "frobnicate"},
		{"unknown flag", 2, []string{"mount", "--frobnicate"}, "frobnicate"},
		{"umount of nothing", 1, []string{"umount", p.dir}, "not mounted"},
		{"show of nothing", 1, []string{"show", p.path("never.txt")}, "never mounted"},
	} {
		text := p.refuse(c.code, c.args...)
		if !strings.HasPrefix(text, "cachebro: ") || !strings.Contains(text, c.want) {
			t.Errorf("%s: %s", c.name, text)
		}
		if !strings.Contains(text, "hint: ") {
			t.Errorf("%s has no hint: %s", c.name, text)
		}
		if mounted(p.dir) || mounted(full) {
			t.Errorf("%s: something is mounted", c.name)
		}
	}
	p.mount()
	out, err := p.try("mount", p.dir)
	if err != nil || !strings.Contains(out, "already") {
		t.Errorf("second mount: %v\n%s", err, out)
	}
}
