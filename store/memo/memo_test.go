//go:build linux && (amd64 || arm64)

package memo

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cachebro/store/leaf/ignore"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "traced" {
		fmt.Fprintln(os.Stderr, Traced(os.Args[2:], os.Environ()))
		os.Exit(127)
	}
	os.Exit(m.Run())
}

// bench is a project in which commands run.
type bench struct {
	t    *testing.T
	root string
	env  []string
}

func newBench(t *testing.T, files map[string]string) *bench {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, root: filepath.Join(base, "project")}
	home := filepath.Join(base, "home")
	for _, d := range []string{b.root, home, filepath.Join(base, "tmp")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	b.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "LC_ALL=C", "TMPDIR=" + filepath.Join(base, "tmp")}
	for name, text := range files {
		b.write(name, text)
	}
	return b
}

func (b *bench) write(name, text string) {
	b.t.Helper()
	path := filepath.Join(b.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) getenv(name string) string {
	for _, kv := range b.env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}

// run runs a command under watch.
func (b *bench) run(edit func(*Options), args ...string) (Outcome, string) {
	b.t.Helper()
	program, err := exec.LookPath(args[0])
	if err != nil {
		b.t.Fatal(err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		b.t.Fatal(err)
	}
	defer null.Close()
	dir, err := os.Open(b.root)
	if err != nil {
		b.t.Fatal(err)
	}
	defer dir.Close()
	m, err := ignore.New(dir, ignore.Options{})
	if err != nil {
		b.t.Fatal(err)
	}
	defer m.Close()
	self, err := os.Executable()
	if err != nil {
		b.t.Fatal(err)
	}
	o := Options{Self: self, Program: program, Args: args, Dir: b.root, Env: b.env, Stdin: null, Stdout: null, Stderr: null, Split: true,
		Places: NewPlaces(b.root, b.getenv("HOME"), b.getenv), Classifier: m}
	if edit != nil {
		edit(&o)
	}
	out, err := Run(o)
	if err != nil {
		b.t.Fatal(err)
	}
	return out, text(out.Output)
}

func text(chunks []Chunk) string {
	var s strings.Builder
	for _, c := range chunks {
		s.Write(c.Text)
	}
	return s.String()
}

// record returns the record of a run after encoding and decoding it.
func (b *bench) record(out Outcome) Record {
	b.t.Helper()
	raw, err := NewRecord(b.root, out, time.Now()).Encode()
	if err != nil {
		b.t.Fatal(err)
	}
	r, err := Decode(raw)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

func (b *bench) sh(script string) Record {
	b.t.Helper()
	out, _ := b.run(nil, "sh", "-c", script)
	return b.record(out)
}

func (b *bench) holds(r Record, what string, want bool) {
	b.t.Helper()
	ok, why, _ := r.StillValid(b.root, time.Now())
	if ok != want {
		b.t.Errorf("%s: holds %v (%s), want %v", what, ok, why, want)
	}
}

// Which changes invalidate a result depends on how the command accessed the file.
func TestWhatInvalidates(t *testing.T) {
	b := newBench(t, map[string]string{"a.txt": "1", "b.txt": "2", "d/x": "x", "d/e/y": "y", "other": "o"})
	if err := os.Symlink("a.txt", filepath.Join(b.root, "link")); err != nil {
		t.Fatal(err)
	}
	do := func(f func() error) {
		t.Helper()
		if err := f(); err != nil {
			t.Fatal(err)
		}
	}
	in := func(name string) string { return filepath.Join(b.root, name) }
	for _, c := range []struct {
		what, script string
		change       func()
		holds        bool
	}{
		{"nothing", "cat a.txt", func() {}, true},
		{"what was read", "cat a.txt", func() { b.write("a.txt", "3") }, false},
		{"what was not", "cat a.txt", func() { b.write("b.txt", "3") }, true},
		{"read through a symlink", "cat link", func() { b.write("a.txt", "4") }, false},
		{"the symlink", "cat link", func() { do(func() error { _ = os.Remove(in("link")); return os.Symlink("b.txt", in("link")) }) }, false},
		{"times of what was read", "cat a.txt", func() { do(func() error { return os.Chtimes(in("a.txt"), time.Now(), time.Now()) }) }, true},
		{"times of what was only looked at", "test a.txt -nt b.txt; true", func() { do(func() error { return os.Chtimes(in("a.txt"), time.Now(), time.Now()) }) }, false},
		{"a mode", "cat a.txt", func() { do(func() error { return os.Chmod(in("a.txt"), 0o600) }) }, false},
		{"a name in a listing", "ls d", func() { b.write("d/new", "") }, false},
		{"a name in a glob", "echo d/*", func() { b.write("d/newer", "") }, false},
		{"a name elsewhere", "echo d/*", func() { b.write("elsewhere", "") }, true},
		{"a name that was absent", "cat d/e/absent 2>/dev/null || echo none", func() { b.write("d/e/absent", "there") }, false},
		{"below what was absent", "cat q/r/s 2>/dev/null || echo none", func() { b.write("q/r/s", "there") }, false},
		{"gone", "cat other", func() { do(func() error { return os.Remove(in("other")) }) }, false},
		{"replaced by the same", "cat b.txt", func() { do(func() error { b.write("tmp", "3"); return os.Rename(in("tmp"), in("b.txt")) }) }, true},
		{"a script's interpreter is read too", "d/script", func() { b.write("d/lib.sh", "echo other") }, false},
		{"a directory on the way becomes a symlink", "cat d/e/y", func() {
			do(func() error {
				if err := os.Rename(in("d/e"), in("d/f")); err != nil {
					return err
				}
				b.write("z/y", "other")
				return os.Symlink("../z", in("d/e"))
			})
		}, false},
	} {
		if c.script == "d/script" {
			b.write("d/script", "#!/bin/sh\n. ./d/lib.sh\n")
			b.write("d/lib.sh", "echo lib")
			do(func() error { return os.Chmod(in("d/script"), 0o755) })
		}
		r := b.sh(c.script)
		if strings.Contains(strings.Join(r.Why, ""), "access time") { // the first access changes the access time
			r = b.sh(c.script)
		}
		b.holds(r, c.what+": before", true)
		c.change()
		b.holds(r, c.what, c.holds)
	}
}

// A run that cannot be replayed says why.
func TestWhatIsNotReplayed(t *testing.T) {
	b := newBench(t, map[string]string{"a.txt": "1\n", "gone.txt": "", ".gitignore": "out/\n*.log\n"})
	if out, err := exec.Command("git", "-C", b.root, "init", "-q").CombinedOutput(); err != nil {
		t.Fatalf("%s", out)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	other := filepath.Join(filepath.Dir(b.root), "other")
	if err := os.WriteFile(other, []byte("o"), 0o644); err != nil {
		t.Fatal(err)
	}
	for script, why := range map[string]string{
		"exit 3":                             "failed",
		"echo 2 >> a.txt":                    "wrote a.txt",
		"echo 2 > new.txt":                   "wrote new.txt",
		"rm gone.txt":                        "wrote gone.txt",
		"mkdir -p deep/er; >deep/er/f":       "wrote deep/er/f",
		"git config user.name x":             "wrote .git/config",
		"cat ../other":                       "outside of the project",
		"ls ..":                              "outside of the project",
		"echo x > ../written":                "outside of the project",
		"ls /proc >/dev/null":                "processes",
		"sleep 5 >/dev/null 2>&1 & :":        "left a process running",
		"cat x.log 2>&-; echo 1 >x.log":      "changed x.log, which it had looked at",
		"exec 3<>/dev/tcp/127.0.0.1/" + port: "network socket",
	} {
		shell := "sh"
		if strings.Contains(script, "/dev/tcp") {
			shell = "bash"
		}
		out, _ := b.run(nil, shell, "-c", script)
		if got := strings.Join(out.Why, "; "); !strings.Contains(got, why) {
			t.Errorf("%s: %q, want %q", script, got, why)
		}
		r := b.record(out)
		b.holds(r, script, false)
		if len(r.Output)+len(r.Seen) > 0 {
			t.Errorf("%s: more is kept than why", script)
		}
	}
	out, got := b.run(func(o *Options) { o.AllowOutside = true }, "cat", "../other")
	if len(out.Why) > 0 || got != "o" {
		t.Fatal(out.Why, got)
	}
	r := b.record(out)
	b.holds(r, "outside, allowed", true)
	if err := os.WriteFile(other, []byte("p"), 0o644); err != nil {
		t.Fatal(err)
	}
	b.holds(r, "outside, changed", false)
}

// Ignored files that a command created must exist for a replay.
func TestOutputsMustBeThere(t *testing.T) {
	b := newBench(t, map[string]string{"a.txt": "1\n", ".gitignore": "out/\n"})
	b.write("out/keep", "")
	r := b.sh("cat a.txt > out/b; mkdir out/sub; echo c > out/sub/c")
	b.holds(r, "as it was left", true)
	b.write("out/sub/c", "other\n")
	b.holds(r, "one is another", false)
	b.write("out/sub/c", "c\n")
	b.holds(r, "as it was left, again", true)
	if err := os.Remove(filepath.Join(b.root, "out/b")); err != nil {
		t.Fatal(err)
	}
	b.holds(r, "one is gone", false)
	// Temporary files leave no trace.
	if r := b.sh("cat a.txt > t.tmp; cat t.tmp; rm t.tmp; d=$(mktemp -d); echo x > $d/y; rm -r $d"); len(r.Why) > 0 || len(r.Output) == 0 {
		t.Error(r.Why)
	} else {
		b.holds(r, "temporary files", true)
		b.write("t.tmp", "in the way")
	}
}

func TestStandardInput(t *testing.T) {
	b := newBench(t, map[string]string{"a.txt": "1\n", "b.txt": "2\n"})
	f, err := os.Open(filepath.Join(b.root, "a.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	give := func(o *Options) { o.Stdin = f }
	if out, got := b.run(give, "cat"); got != "1\n" || len(out.Why) != 1 || !strings.Contains(out.Why[0], "standard input") {
		t.Error(out.Why, got)
	}
	if out, _ := b.run(give, "sh", "-c", "cat < b.txt"); len(out.Why) != 0 {
		t.Error("another descriptor 0 than ours:", out.Why)
	}
}

// Stdout and stderr each keep their order and stay separate. The exit status and a large output are
// recorded too.
func TestOutput(t *testing.T) {
	b := newBench(t, nil)
	out, _ := b.run(nil, "sh", "-c", "echo a; echo b >&2; echo c; exit 7")
	var one, two string
	for _, c := range out.Output {
		if c.To == 1 {
			one += string(c.Text)
		} else {
			two += string(c.Text)
		}
	}
	if one != "a\nc\n" || two != "b\n" || out.Err == nil || out.Err.Error() != "exit status 7" {
		t.Fatalf("%q %q %v", one, two, out.Err)
	}
	if out, got := b.run(func(o *Options) { o.Split = false }, "sh", "-c", "echo a; echo b >&2; echo c"); got != "a\nb\nc\n" || len(out.Why) > 0 {
		t.Fatalf("%q %v", got, out.Why)
	}
	if out, _ := b.run(nil, "head", "-c", "20000000", "/dev/zero"); len(out.Output) > 0 || !strings.Contains(strings.Join(out.Why, ""), "wrote more than") {
		t.Fatal(out.Why)
	}
}

// A process that still runs after the command has ended continues undisturbed.
func TestLeftProcessGoesOn(t *testing.T) {
	b := newBench(t, map[string]string{"a.txt": "content"})
	b.run(nil, "sh", "-c", "(while [ ! -e go ]; do sleep 0.05; done; cat a.txt > copied; >done) >/dev/null 2>&1 &")
	b.write("go", "")
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(b.root, "done")); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("it never got to its end")
		}
	}
	if got, err := os.ReadFile(filepath.Join(b.root, "copied")); err != nil || string(got) != "content" {
		t.Fatal(string(got), err)
	}
}

func TestCallsThatAreTheSame(t *testing.T) {
	b := newBench(t, nil)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	call := func(env ...string) string {
		o := Options{Program: "/bin/true", Args: []string{"true", "\xff"}, Env: env, Stdin: null, Stdout: null, Stderr: null, Places: NewPlaces(b.root, "", os.Getenv)}
		return fmt.Sprintf("%+v", NewCall(o, "sub"))
	}
	base := call("A=1", "B=2")
	if call("B=2", "A=1", "PWD=/x") != base {
		t.Error("order counts, or what is the call's own")
	}
	for _, env := range [][]string{{"A=1"}, {"A=1", "B=3"}, {"A=1", "B=2", "C="}, {"A=1", "B=2", "SHLVL=2"}} {
		if call(env...) == base {
			t.Error(env, "does not count")
		}
	}
}

func TestOfAnotherMachine(t *testing.T) {
	b := newBench(t, map[string]string{"f": "same"})
	out, _ := b.run(nil, "cat", "f")
	r := b.record(out)
	// The files of the other machine have other inodes and times.
	if err := os.Rename(b.root, b.root+".was"); err != nil {
		t.Fatal(err)
	}
	b.write("f", "same")
	if ok, why, fresh := r.StillValid(b.root, time.Now().Add(time.Hour)); !ok || fresh == nil {
		t.Fatal(ok, why)
	} else if ok, why, again := fresh.StillValid(b.root, time.Now()); !ok || again != nil {
		t.Fatal("looked closer twice", ok, why)
	}
	if ok, why, _ := r.StillValid(b.root+".was", time.Now()); ok || !strings.Contains(why, "the project was at") {
		t.Fatal("the place, which a command can ask for, is another one", ok, why)
	}
	b.write("f", "other")
	if ok, _, _ := r.StillValid(b.root, time.Now()); ok {
		t.Fatal("another content")
	}
	if _, err := Decode([]byte{0x83, 1, 2}); err == nil {
		t.Fatal("not a record")
	}
	evil := Record{Root: "/", Seen: []Seen{{Path: "../../etc/passwd", Inside: true}}}
	raw, err := evil.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Decode(raw); err == nil {
		t.Fatal("a path that leads out of the project")
	}
}
