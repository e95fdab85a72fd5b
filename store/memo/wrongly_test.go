//go:build linux && (amd64 || arm64)

package memo

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// repeatable runs a command until it can be replayed, at most three times: a first run changes
// access times.
func (b *bench) repeatable(edit func(*Options), args ...string) (Record, string) {
	b.t.Helper()
	var rec Record
	var said string
	for range 3 {
		var out Outcome
		out, said = b.run(edit, args...)
		if rec = b.record(out); len(rec.Why) == 0 {
			break
		}
	}
	return rec, said
}

// TestNeverRepeatedWrongly: a replay prints what a run would print. The replays of 30 of 42
// commands used to print something else, because only facts known to matter were compared. Now all
// facts are compared except those known not to matter.
func TestNeverRepeatedWrongly(t *testing.T) {
	t.Setenv("PATH", "/usr/bin:/bin:"+os.Getenv("PATH")) // these directories have the programs, not scripts that look for them
	b := newBench(t, map[string]string{"a.txt": "one\n", "b.txt": "two\n", "d/x": "x", "count.py": "import sys\nprint(len(sys.argv))\n"})
	in := func(name string) string { return filepath.Join(b.root, name) }
	cache := filepath.Join(b.getenv("HOME"), ".cache", "x")
	if err := os.MkdirAll(filepath.Dir(cache), 0o755); err != nil {
		t.Fatal(err)
	}
	shm := filepath.Join("/dev/shm", filepath.Base(filepath.Dir(b.root))+"-memo")
	t.Cleanup(func() { os.Remove(shm) })
	put := func(path, text string) func() {
		return func() {
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	sh := func(script string) func() {
		return func() {
			cmd := exec.Command("sh", "-ec", script)
			cmd.Dir = b.root
			if out, err := cmd.CombinedOutput(); err != nil { // the program is missing or may not do this, so it has changed nothing
				t.Logf("%s: %v\n%s", script, err, out)
			}
		}
	}
	attribute := func(name string) func() {
		return func() {
			if err := unix.Setxattr(in("a.txt"), name, []byte("y"), 0); err != nil && err != unix.EOPNOTSUPP {
				t.Fatal(err)
			}
		}
	}
	put(cache, "one")()
	put(shm, "one")()
	put(in("stamp.c"), "__TIMESTAMP__\n")()
	sh("ln -s /proc/uptime uptime; mkfifo fifo; git init -q; git add a.txt; git -c user.name=t -c user.email=t@example.org commit -qm x")()
	static := b.static()
	cases := []struct {
		script string
		change func()
	}{
		{static + " append-and-read a.txt", put(in("a.txt"), "other")},
		{static + " make-or-read a.txt", put(in("a.txt"), "another")},
		{static + " read-and-write a.txt", put(in("a.txt"), "third")},
		{"ls -l a.txt", sh("chown 1234 a.txt")},
		{"stat -c %u a.txt", sh("chown 1235 a.txt")},
		{"stat -c %g a.txt", sh("chgrp 1236 a.txt")},
		{"stat -c %h a.txt", sh("ln a.txt link1")},
		{"cat a.txt; stat -c %h a.txt", sh("ln a.txt link2")},
		{"stat -c %i a.txt", sh("cp a.txt t && mv t a.txt")},
		{"stat -c %Y a.txt", sh("touch -d 2001-01-01 a.txt")},
		{"stat -c %X a.txt", sh("touch -a -d 2001-01-01 a.txt")},
		{"stat -c %Z a.txt", sh("chmod 600 a.txt; chmod 644 a.txt")},
		{"stat -c %Y d", put(in("d/y"), "")},
		{"stat -c %h d", sh("mkdir d/sub")},
		{"find . -newer b.txt -name a.txt", sh("touch -d 2001-01-01 a.txt; touch b.txt")},
		{static + " read-and-stat a.txt", sh("touch -d 2002-01-01 a.txt")},
		{static + " read-and-fstat a.txt", sh("touch -d 2003-01-01 a.txt")},
		{static + " fstat a.txt", sh("ln a.txt link3")},
		{static + " attributes a.txt", attribute("user.x")},
		{static + " attributes-of-open a.txt", attribute("user.z")},
		{"test a.txt -nt b.txt && echo newer; true", sh("touch -d 2004-01-01 b.txt; touch a.txt")},
		{"cat " + shm, put(shm, "two")},
		{"cat " + cache, put(cache, "two")},
		{"cat /proc/uptime", func() { time.Sleep(20 * time.Millisecond) }},
		{"cat /proc/self/stat", func() {}},
		{"cat /proc/loadavg /proc/meminfo", func() {}},
		{"cut -d' ' -f1 /proc/self/stat", func() {}},
		{"ls /proc/self/fd", func() {}},
		{"df --output=avail . | tail -1", put(in("big"), strings.Repeat("x", 1<<20))},
		{"free -b 2>/dev/null || python3 -c 'import os; print(os.sysconf(\"SC_AVPHYS_PAGES\"))'", func() {}},
		{"sort -R a.txt b.txt | wc -l; ls d", put(in("d/z"), "")},
		{"du -b d", put(in("d/q"), "12345")},
		{"diff -u a.txt b.txt; true", sh("touch -d 2005-01-01 b.txt")},
		{"head -c 3 < a.txt", put(in("a.txt"), "headed")},
		{"wc -c < a.txt", put(in("a.txt"), "longer than it was")},
		{"exec 4<a.txt; cat <&4", put(in("a.txt"), "by another descriptor")},
		{"stat -c %Y - < a.txt", sh("touch -d 2007-01-01 a.txt")},
		{"stat -L -c %Y /dev/stdin < a.txt", sh("touch -d 2008-01-01 a.txt")},
		{static + " fstat - < a.txt", sh("touch -d 2009-01-01 a.txt")},
		{"exec 0<d; " + static + " fstat -", sh("mkdir d/sub2")},
		{"cat uptime", func() { time.Sleep(20 * time.Millisecond) }},
		{"cd /proc; cat uptime", func() { time.Sleep(20 * time.Millisecond) }},
		{"git diff-files --name-only", sh("touch -d 2010-01-01 a.txt")},
		{"gcc -E stamp.c | tail -1", sh("touch -d 2011-01-01 stamp.c")},
		{"bash -c '[ -N a.txt ] && echo unread; true'", sh("touch -a -d 2001-01-01 a.txt")},
		{static + " read a.txt", put(in("a.txt"), "static")},
		{"strace -f -o /dev/null cat a.txt", put(in("a.txt"), "traced")},
		{"rg --sort modified --files 2>/dev/null || ls -t", sh("touch -d 2006-01-01 a.txt; touch b.txt")},
	}
	refused := 0
	for _, c := range cases {
		args := []string{"sh", "-c", c.script}
		rec, _ := b.repeatable(nil, args...)
		c.change()
		ok, why, _ := rec.StillValid(b.root, time.Now())
		if !ok {
			if len(rec.Why) > 0 {
				refused++
			}
			t.Logf("%s: %s", c.script, why)
			continue
		}
		if _, now := b.run(nil, args...); now != text(rec.Output) {
			t.Errorf("%s: repeated\n%swhere a run says\n%s", c.script, text(rec.Output), now)
		}
	}
	t.Logf("%d commands, %d of them never repeated", len(cases), refused)
	// A run is never replayed if it depends on anything that cannot be compared.
	for _, script := range []string{"ls /dev", "ls -l /sys/fs/cgroup", "readlink /proc/self/fd/1", "(echo x >fifo & cat fifo; wait)", "kill -0 1", "kill -0 $PPID", "nice", "flock -n a.txt true",
		"head -c 4 /dev/urandom", "lsattr -d .", "unshare -u true", "ps", "date", "shuf a.txt", "df .", "python3 -c 'import socket; socket.socket()'", "python3 -c 'import ctypes; print(ctypes.CDLL(None).shmget(1, 1, 0))'",
		"python3 -c 'import ctypes; ctypes.CDLL(None).ptrace(0, 0, 0, 0)'", "python3 -c 'import os; print(os.statvfs(\".\").f_bfree)'", "python3 -c 'import resource; print(resource.prlimit(1, resource.RLIMIT_CORE))'"} {
		if out, said := b.run(nil, "sh", "-c", script+"; true"); len(out.Why) == 0 && !strings.Contains(said, "not found") {
			t.Errorf("%s: %q would be repeated", script, said)
		}
	}
	// A run that reads an inherited descriptor is never replayed either.
	for _, script := range []string{"cat", "cat <&5 5<&0", "wc -c", "python3 -c 'import os; print(os.fstat(0).st_size)'",
		"python3 -c 'import mmap; print(mmap.mmap(0, 3, prot=1)[:3])'", "python3 -c 'import os; print(os.pread(0, 3, 0))'", "python3 -c 'import os; print(os.read(os.dup(0), 9))'", "head -c1 /dev/stdin"} {
		f, err := os.Open(in("b.txt"))
		if err != nil {
			t.Fatal(err)
		}
		out, said := b.run(func(o *Options) { o.Stdin = f }, "sh", "-c", script)
		f.Close()
		if len(out.Why) == 0 {
			t.Errorf("%s: %q would be repeated for any input", script, said)
		}
	}
}

// static builds a statically linked program that accesses a file. Its first argument is the way of
// access.
func (b *bench) static() string {
	b.t.Helper()
	dir := b.t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(`package main

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"
)

func main() {
	path, flags := os.Args[2], 0
	switch os.Args[1] {
	case "append-and-read":
		flags = os.O_RDWR | os.O_CREATE | os.O_APPEND
	case "make-or-read":
		flags = os.O_RDWR | os.O_CREATE
	case "read-and-write":
		flags = os.O_RDWR
	}
	fd, buf := 0, make([]byte, 100)
	if path != "-" {
		var err error
		if fd, err = syscall.Open(path, flags, 0o644); err != nil {
			panic(err)
		}
	}
	var st syscall.Stat_t
	n := 0
	switch os.Args[1] {
	case "read-and-stat":
		syscall.Stat(path, &st)
	case "read-and-fstat", "fstat":
		syscall.Fstat(fd, &st)
	case "attributes":
		n, _ = syscall.Listxattr(path, buf)
	case "attributes-of-open":
		r, _, _ := syscall.Syscall(syscall.SYS_FLISTXATTR, uintptr(fd), uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)))
		n = int(r)
	}
	if n == 0 && os.Args[1] != "fstat" {
		n, _ = syscall.Read(fd, buf)
	}
	fmt.Printf("%q %d %d\n", buf[:max(n, 0)], st.Mtim.Nano(), st.Nlink)
}
`), 0o644); err != nil {
		b.t.Fatal(err)
	}
	cmd := exec.Command("go", "build", "-o", filepath.Join(b.root, "static"), filepath.Join(dir, "main.go"))
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.t.Fatalf("%v: %s", err, out)
	}
	return "./static"
}

// TestCallsOfAnotherMachine: a program's limits and processors are part of the call, and the answer
// of uname is part of the record.
func TestCallsOfAnotherMachine(t *testing.T) {
	b := newBench(t, nil)
	runtime.LockOSThread() // not unlocked: the thread ends with the test
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	call := func() string {
		o := Options{Program: "/bin/true", Args: []string{"true"}, Stdin: null, Stdout: null, Stderr: null, Places: NewPlaces(b.root, "", os.Getenv)}
		return fmt.Sprintf("%+v", NewCall(o, ""))
	}
	base := call()
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &was); err != nil {
		t.Fatal(err)
	}
	other := was
	if other.Cur = 4096; was.Cur == other.Cur {
		other.Cur = 0
	}
	other.Cur = min(other.Cur, other.Max)
	if other.Cur != was.Cur {
		if err := unix.Setrlimit(unix.RLIMIT_CORE, &other); err != nil {
			t.Fatal(err)
		}
		if call() == base {
			t.Error("a limit does not count")
		}
		if err := unix.Setrlimit(unix.RLIMIT_CORE, &was); err != nil {
			t.Fatal(err)
		}
	}
	var all, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	for cpu := range 1024 {
		if all.IsSet(cpu) {
			one.Set(cpu)
			break
		}
	}
	if one != all {
		if err := unix.SchedSetaffinity(0, &one); err != nil {
			t.Fatal(err)
		}
		if call() == base {
			t.Error("the processors do not count")
		}
	}
	out, _ := b.run(nil, "uname", "-n")
	if len(out.Why) > 0 {
		t.Fatal(out.Why)
	}
	rec := b.record(out)
	b.holds(rec, "the same name", true)
	i := slices.IndexFunc(rec.Seen, func(s Seen) bool { return s.Path == unameOf })
	if i < 0 {
		t.Fatal("that it asked for the machine's name is not known")
	}
	rec.Seen[i].Hash = "another"
	b.holds(rec, "another name", false)
}

// TestEverydayIsRepeated: the strict rule still replays commands for which nothing has changed.
func TestEverydayIsRepeated(t *testing.T) {
	t.Setenv("PATH", "/usr/bin:/bin:"+os.Getenv("PATH"))
	b := newBench(t, map[string]string{"a.txt": "one\n", "d/x.txt": "two\n", "go.mod": "module m\n\ngo 1.21\n", "m.go": "package m\n\nfunc F() int { return 1 }\n",
		"m_test.go": "package m\n\nimport (\n\t_ \"net\"\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestF(t *testing.T) {\n\tif _, err := os.Open(os.DevNull); err != nil || F() != 1 {\n\t\tt.Fatal()\n\t}\n}\n", "Makefile": "all:\n\t@cat a.txt\n", "c/x.c": "int main(void) { return 0; }\n",
		".gitignore": "*.o\n__pycache__/\n"})
	b.env = append(b.env, "GOCACHE="+goCache(t), "GOFLAGS=-mod=mod", "GOTOOLCHAIN=local", "GOMODCACHE="+os.Getenv("GOMODCACHE"))
	for _, script := range []string{"git init -q", "git add .", "git -c user.name=t -c user.email=t@example.org commit -qm x"} {
		cmd := exec.Command("sh", "-c", script)
		cmd.Dir, cmd.Env = b.root, b.env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s", out)
		}
	}
	for _, line := range []string{"cat a.txt", "head -n 1 a.txt d/x.txt", "grep -rn one .", "wc -l a.txt", "sort a.txt", "sed -n 1p a.txt", "ls", "ls -l d", "find . -name x.txt", "stat a.txt",
		"diff a.txt a.txt", "git log --oneline", "git show --stat", "git diff", "git ls-files", "go list ./...", "go vet ./...", "go build ./...", "go test ./...", "make", "gcc -fsyntax-only c/x.c",
		"sh -c 'cat a.txt | tr a-z A-Z'", "bash -c 'for f in d/*; do echo $f; done'", "/usr/bin/env true", "rg one", "cut -c1 a.txt", "sha256sum a.txt"} {
		args := []string{"sh", "-c", line}
		if !strings.Contains(line, "'") {
			args = strings.Fields(line)
		}
		if _, err := exec.LookPath(strings.Fields(line)[0]); err != nil {
			t.Logf("%s: not here", line)
			continue
		}
		rec, said := b.repeatable(nil, args...)
		if ok, why, _ := rec.StillValid(b.root, time.Now()); !ok {
			t.Errorf("%s: %s\n%s", line, why, said)
		}
	}
}
