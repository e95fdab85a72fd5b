package e2e

import (
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestContents covers the ways in which programs change files, and checks that each content that
// was closed, or existed before, can be shown again byte for byte.
func TestContents(t *testing.T) {
	t.Parallel()
	random := make([]byte, 300_000)
	rand.New(rand.NewSource(1)).Read(random)
	old := "one\ntwo\nthree\n"
	names := []string{"with space.txt", "new\nline.txt", "bad\xff\xfeutf8.txt", "uml\u00e4ut.txt", "-dash", "quote\"d.txt", "tab\there"}
	files := map[string]string{
		"sed.txt": old, "save.txt": old, "rm.txt": old, "trunc.txt": old, "trunc2.txt": old, "otrunc.txt": old,
		"mmap.txt": strings.Repeat("a", 8192), "append.txt": "", "inherit.txt": "", "unread.bin": string(random),
		"open.txt": old, "link.txt": old, "big.bin": strings.Repeat("0123456789abcdef", 200_000), "mode.sh": "#!/bin/sh\n",
		"dir/a.txt": "A\n", "dir/b.txt": "B\n", "empty.txt": "",
	}
	for _, n := range names {
		files[n] = old
	}
	p := newProject(t, files)
	p.mount()

	t.Run("sed", func(t *testing.T) {
		p.sh("sed -i s/two/2/ sed.txt; sed -i s/three/3/ sed.txt")
		p.wantContents("sed.txt", old, "one\n2\nthree\n", "one\n2\n3\n")
	})
	t.Run("atomic save", func(t *testing.T) {
		p.sh("echo new > save.txt.tmp; mv save.txt.tmp save.txt")
		p.wantContents("save.txt", old, "new\n")
	})
	t.Run("rm", func(t *testing.T) {
		p.sh("rm rm.txt")
		p.wantContents("rm.txt", old)
		p.cb("revert", "--yes", p.path("rm.txt"))
		if got := p.sh("cat rm.txt"); got != old {
			t.Errorf("reverted: %q", got)
		}
	})
	t.Run("truncate", func(t *testing.T) {
		if err := os.Truncate(p.path("trunc.txt"), 4); err != nil {
			t.Fatal(err)
		}
		p.wantContents("trunc.txt", old, "one\n")
		f, err := os.OpenFile(p.path("trunc2.txt"), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		f.Truncate(3)
		f.WriteAt([]byte("X"), 5)
		f.Close()
		p.wantContents("trunc2.txt", old, "one\x00\x00X")
	})
	t.Run("O_TRUNC without a write", func(t *testing.T) {
		p.sh(": > otrunc.txt")
		// The file counts as closed at its RELEASE, which the kernel may send later.
		eventually(t, time.Second, "the emptied file is in the log", func() bool { return len(p.contents("otrunc.txt")) > 1 })
		p.wantContents("otrunc.txt", old, "")
	})
	t.Run("mmap flushed after the last close", func(t *testing.T) {
		f, err := os.OpenFile(p.path("mmap.txt"), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		m, err := unix.Mmap(int(f.Fd()), 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		copy(m[100:], "hello")
		unix.Msync(m, unix.MS_SYNC)
		unix.Munmap(m)
		want := strings.Repeat("a", 100) + "hello" + strings.Repeat("a", 8192-105)
		eventually(t, 6*time.Second, "the stored page is in the log", func() bool {
			c := p.contents("mmap.txt")
			return len(c) > 0 && c[len(c)-1] == want
		})
		p.wantContents("mmap.txt", strings.Repeat("a", 8192), want)
	})
	t.Run("two processes append", func(t *testing.T) {
		p.sh(`for i in 1 2 3 4 5 6 7 8 9; do echo a$i >> append.txt; done & for i in 1 2 3 4 5 6 7 8 9; do echo b$i >> append.txt; done; wait`)
		final, _ := os.ReadFile(p.path("append.txt"))
		c := p.contents("append.txt")
		// Two processes that write at the same moment may share a close.
		if len(c) < 10 || c[len(c)-1] != string(final) {
			t.Errorf("%d versions, newest %s, file %s", len(c), brief(c[len(c)-1]), brief(string(final)))
		}
		for i := 1; i < len(c); i++ {
			if !strings.HasPrefix(c[i], c[i-1]) {
				t.Errorf("version %d does not continue version %d", i+1, i)
			}
		}
	})
	t.Run("inherited descriptor", func(t *testing.T) {
		p.sh(`exec 3>inherit.txt; (echo child >&3); echo parent >&3; exec 3>&-`)
		p.wantContents("inherit.txt", "child\nparent\n")
	})
	t.Run("never read before it is overwritten", func(t *testing.T) {
		p.sh("echo gone > unread.bin")
		p.wantContents("unread.bin", string(random), "gone\n")
	})
	t.Run("deleted while open", func(t *testing.T) {
		f, err := os.OpenFile(p.path("open.txt"), os.O_RDWR|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(p.path("open.txt")); err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString("after\n"); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 100)
		n, _ := f.ReadAt(buf, 0)
		if string(buf[:n]) != old+"after\n" {
			t.Errorf("read back %q", buf[:n])
		}
		f.Close()
		p.wantContents("open.txt", old)
	})
	t.Run("hard link", func(t *testing.T) {
		if err := os.Link(p.path("link.txt"), p.path("link2.txt")); err != nil {
			t.Fatal(err)
		}
		p.sh("echo four >> link2.txt")
		p.wantContents("link.txt", old)
		p.wantContents("link2.txt", old+"four\n")
		if got := p.sh("cat link.txt"); got != old+"four\n" {
			t.Errorf("other name reads %q", got)
		}
	})
	t.Run("symlink", func(t *testing.T) {
		p.sh("ln -s sed.txt sym; ln -sfn dir sym")
		was, err := os.Lstat(p.path("sym"))
		if err != nil {
			t.Fatal(err)
		}
		p.sh("rm sym")
		var ops []string
		for _, e := range p.log("sym") {
			ops = append(ops, e.Op)
		}
		if len(ops) < 2 || ops[len(ops)-1] != "unlink" {
			t.Errorf("history of the symlink: %v", ops)
		}
		p.cb("revert", "--yes", p.path("sym"))
		if target, err := os.Readlink(p.path("sym")); err != nil || target != "dir" {
			t.Errorf("symlink came back as %q, %v", target, err)
		}
		if fi, err := os.Lstat(p.path("sym")); err != nil || !fi.ModTime().Equal(was.ModTime()) {
			t.Errorf("it was of %v, and is of %v, %v", was.ModTime(), fi.ModTime(), err)
		}
	})
	t.Run("large", func(t *testing.T) {
		p.sh("printf X | dd of=big.bin bs=1 seek=1000 conv=notrunc status=none")
		want := []byte(files["big.bin"])
		want[1000] = 'X'
		p.wantContents("big.bin", files["big.bin"], string(want))
	})
	t.Run("mode", func(t *testing.T) {
		p.sh("chmod 755 mode.sh; echo echo hi >> mode.sh; rm mode.sh")
		p.cb("revert", "--yes", p.path("mode.sh"))
		st, err := os.Stat(p.path("mode.sh"))
		if err != nil || st.Mode().Perm() != 0o755 {
			t.Errorf("came back with %v, %v", st.Mode(), err)
		}
	})
	t.Run("directory moved", func(t *testing.T) {
		p.sh("mv dir moved; echo A2 > moved/a.txt")
		p.wantContents("moved/a.txt", "A2\n")
		p.wantContents("dir/a.txt", "A\n")
	})
	t.Run("empty", func(t *testing.T) {
		p.sh("rm empty.txt; touch touched.txt")
		p.wantContents("empty.txt", "")
		p.wantContents("touched.txt", "")
	})
	t.Run("names", func(t *testing.T) {
		for _, n := range names {
			f, err := os.OpenFile(p.path(n), os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				t.Fatal(err)
			}
			f.WriteString("more\n")
			f.Close()
			p.wantContents(n, old, old+"more\n")
			if err := os.Remove(p.path(n)); err != nil {
				t.Fatal(err)
			}
			p.cb("revert", "--yes", "--", p.path(n))
			if got, _ := os.ReadFile(p.path(n)); string(got) != old+"more\n" {
				t.Errorf("%q came back as %q", n, got)
			}
		}
	})
}

// TestTrackedThoughIgnored: git ignores .gitignore for a file in its index, and cachebro must do
// the same.
func TestTrackedThoughIgnored(t *testing.T) {
	p := newProject(t, map[string]string{".gitignore": "*.log\n", "kept.log": "kept 1\n", "free.log": "free 1\n"})
	p.sh("git init -q . && git add -f kept.log .gitignore && git -c user.name=t -c user.email=t@example.org commit -qm x")
	p.mount()
	p.sh("echo kept 2 > kept.log; echo free 2 > free.log; rm free.log")
	p.wantContents("kept.log", "kept 1\n", "kept 2\n")
	p.wantContents("free.log", "free 1\n", "free 2\n")
}

// TestShowsWhoDidIt checks the process name and pid of short-lived writers, which are right only
// if they are looked up while the writer runs.
func TestShowsWhoDidIt(t *testing.T) {
	p := newProject(t, map[string]string{"a.txt": "1\n", "b.txt": "1\n"})
	p.mount()
	cmd := exec.Command("sed", "-i", "s/1/2/", p.path("a.txt"))
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	pid := uint32(cmd.Process.Pid)
	for _, e := range p.log("a.txt") {
		if e.Actor.PID == pid && e.Actor.Comm == "sed" {
			return
		}
	}
	t.Errorf("no version of a.txt by sed (pid %d): %+v", pid, p.log("a.txt"))
}

// TestLeavesAccessTimesAlone: the baseline, a capture and the index read every file, but change no
// access time. A POSIX test once saw one change between two stats of a file that nobody had read.
func TestLeavesAccessTimesAlone(t *testing.T) {
	p := newProject(t, map[string]string{"old.txt": "a walrus\n", "dir/other.txt": "another walrus\n"})
	past := time.Unix(1_000_000_000, 0)
	for _, name := range []string{"old.txt", "dir/other.txt"} {
		// With relatime, any read updates an access time that is older than the modification time.
		if err := os.Chtimes(p.path(name), past, past.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	p.mount()
	p.write("new.txt", "a third walrus\n")
	if err := os.Chtimes(p.path("new.txt"), past, past.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	p.wantContents("new.txt", "a third walrus\n")
	names := []string{"old.txt", "dir/other.txt", "new.txt"}
	for i := range 40 { // contents that were copied at a close, by any method
		name := fmt.Sprintf("closed%d.txt", i)
		f, err := os.Create(p.path(name))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString("short\n"); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(p.path(name), past, past.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	eventually(t, 20*time.Second, "the index holds all three", func() bool {
		out, err := p.try("search", "--json", "walrus", "--dir", p.dir)
		return err == nil && strings.Contains(out, "old.txt") && strings.Contains(out, "other.txt") && strings.Contains(out, "new.txt")
	})
	f, err := os.OpenFile(p.path("old.txt"), os.O_WRONLY, 0) // this close stores nothing and reads nothing
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p.cb("log", "--dir", p.dir)
	for _, name := range names {
		var st unix.Stat_t
		if err := unix.Stat(p.path(name), &st); err != nil {
			t.Fatal(err)
		}
		if got := time.Unix(st.Atim.Unix()); !got.Equal(past) {
			t.Errorf("%s: read at %v, wanted %v as it was set", name, got, past)
		}
	}
}
