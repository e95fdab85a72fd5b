package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// What a random agent against a byte-exact twin found: each left something other than
// it was, and said "done" with status 0.
func TestUndoIsExactOrNamesIt(t *testing.T) {
	file := func(name, want string) func(d string) error {
		return func(d string) error {
			b, err := os.ReadFile(filepath.Join(d, name))
			if err == nil && string(b) != want {
				err = fmt.Errorf("%s is %q, was %q", name, b, want)
			}
			return err
		}
	}
	mode := func(name string, want uint32) func(d string) error {
		return func(d string) error {
			var st unix.Stat_t
			err := unix.Lstat(filepath.Join(d, name), &st)
			if err == nil && st.Mode != want {
				err = fmt.Errorf("%s has mode %o, had %o", name, st.Mode, want)
			}
			return err
		}
	}
	oneFile := func(a, b string, want bool) func(d string) error {
		return func(d string) error {
			x, err1 := os.Stat(filepath.Join(d, a))
			y, err2 := os.Stat(filepath.Join(d, b))
			if err := errors.Join(err1, err2); err != nil {
				return err
			}
			if os.SameFile(x, y) != want {
				return fmt.Errorf("%s and %s are one file: %v", a, b, !want)
			}
			return nil
		}
	}
	cases := []struct {
		name  string
		root  bool                 // works as another user
		setup string               // before the mount; $G is a directory in .git
		act   string               // after it
		then  func(d string) error // more of that
		paths []string             // undo only these
		lost  string               // named by the first undo
		redo  int                  // status of the redo between two undos
		want  []func(d string) error
	}{
		{name: "an ignored file changed by a name in .git",
			setup: "mkdir ign; echo old >ign/f; ln ign/f $G/f", act: "echo new >$G/f; echo new >other",
			lost: "excluded from the history; its file has other names"},
		{name: "a pipe's mode changed by a name in .git",
			setup: "mkfifo -m 644 p; ln p $G/p", act: "chmod 600 $G/p",
			want: []func(string) error{mode("p", unix.S_IFIFO|0o644)}},
		{name: "files with the same content changed places",
			setup: ">c; >z; ln z e", act: "mv z c; echo x >e.tmp; mv e.tmp e",
			want: []func(string) error{file("c", ""), file("e", ""), oneFile("z", "e", true), oneFile("z", "c", false)}},
		{name: "a name that is found while it is undone",
			setup: "echo old >f; ln f x.ign", act: "echo new >f; stat x.ign >/dev/null",
			want: []func(string) error{file("f", "old\n"), oneFile("f", "x.ign", true)}},
		{name: "an ignored file that went with its directory, by path",
			setup: "mkdir src; echo log >src/z.log; echo a >src/a", act: "mv src lib; rm -r lib", paths: []string{"src"},
			want: []func(string) error{file("src/z.log", "log\n"), file("src/a", "a\n")}},
		{name: "a directory moved to where nothing is kept",
			setup: "mkdir -m 750 d; echo log >d/z.log; echo a >d/a", act: "mv d $G/d",
			lost: "d: it was moved to where nothing is kept", want: []func(string) error{file("d/a", "a\n"), mode("d", unix.S_IFDIR|0o750)}},
		{name: "a redo that cannot make a pipe", redo: 1,
			setup: "mkdir tmp; echo y >tmp/y.ign", act: "mv tmp deep; mv deep/y.ign c; mkfifo deep/y.ign",
			want: []func(string) error{file("tmp/y.ign", "y\n")}},
		{name: "a pipe and a directory changed places",
			setup: "mkdir ign lib; mkfifo ign/p.md; echo b >lib/b; ln ign/p.md y.ign",
			then: func(d string) error {
				return unix.Renameat2(unix.AT_FDCWD, d+"/ign/p.md", unix.AT_FDCWD, d+"/lib", unix.RENAME_EXCHANGE)
			},
			want: []func(string) error{file("lib/b", "b\n"), oneFile("ign/p.md", "y.ign", true)}},
		{name: "set-group-id taken away by a write", root: true,
			setup: "echo old >f; chown 6002:6002 f; chmod 2755 f", act: "",
			then: func(d string) error {
				cmd := exec.Command("sh", "-c", "echo more >>"+d+"/f")
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 6002, Gid: 6002}}
				out, err := cmd.CombinedOutput()
				if err != nil {
					err = fmt.Errorf("%w: %s", err, out)
				}
				return err
			},
			want: []func(string) error{file("f", "old\n"), mode("f", unix.S_IFREG|unix.S_ISGID|0o755)}},
	}
	p := newProject(t, map[string]string{"a": "a\n"})
	if err := os.Chmod(p.base, 0o755); err != nil { // for the other user
		t.Fatal(err)
	}
	script := func(d, script string) {
		t.Helper()
		git := filepath.Join(p.dir, ".git/twin", filepath.Base(d))
		if err := os.MkdirAll(git, 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("sh", "-ec", script)
		cmd.Dir, cmd.Env = d, append(p.env, "G="+git)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
	}
	dir := func(i int) string { return p.path(fmt.Sprintf("c%d", i)) }
	for i, c := range cases {
		d := dir(i)
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(d+"/.gitignore", []byte("*.ign\nign/\n*.log\nlib/\n*.md\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if !c.root || os.Geteuid() == 0 {
			script(d, c.setup)
		}
	}
	p.mount()
	p.scanned()
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if c.root && os.Geteuid() != 0 {
				t.Skip("needs root: it works as another user")
			}
			d, since := dir(i), time.Now().Format(time.RFC3339Nano)
			script(d, c.act)
			if c.then != nil {
				if err := c.then(d); err != nil {
					t.Fatal(err)
				}
			}
			undo := []string{"undo", "--yes", "--dir", p.dir, "--since", since}
			if c.paths != nil {
				undo = append(undo, "--")
				for _, name := range c.paths {
					undo = append(undo, filepath.Join(d, name))
				}
			}
			run := func(status int, args ...string) string {
				t.Helper()
				cmd := p.command(args...)
				out, _ := cmd.CombinedOutput()
				if got := cmd.ProcessState.ExitCode(); got != status {
					t.Errorf("%s: status %d, want %d\n%s", args[0], got, status, out)
				}
				return string(out)
			}
			check := func(out string) {
				t.Helper()
				for _, f := range c.want {
					if err := f(d); err != nil {
						t.Errorf("%v\n%s", err, out)
					}
				}
			}
			status := 0
			if c.lost != "" {
				status = 1
			}
			out := run(status, undo...)
			if c.lost != "" && !strings.Contains(out, c.lost) {
				t.Errorf("not named: %s\n%s", c.lost, out)
			}
			check(out)
			run(c.redo, "redo", "--yes", "--dir", p.dir)
			check(run(status, undo...))
		})
	}
}
