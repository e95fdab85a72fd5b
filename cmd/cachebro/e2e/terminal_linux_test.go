package e2e

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// onTerminal runs a shell command on a terminal of its own and returns what arrived there.
func (p *project) onTerminal(script string, env ...string) string {
	p.t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	defer master.Close()
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		p.t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		p.t.Fatal(err)
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir, cmd.Env = p.dir, append(append(p.env, "CB="+binary), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	err = cmd.Start()
	tty.Close()
	if err != nil {
		p.t.Fatal(err)
	}
	var out bytes.Buffer
	_, _ = io.Copy(&out, master) // ends with EIO when the last process has closed the terminal
	if err := cmd.Wait(); err != nil {
		p.t.Fatalf("%s: %v\n%q", script, err, out.String())
	}
	return out.String()
}

// TestTerminalGetsNothingRaw: characters that would control a terminal are made visible when they
// are printed on one, wherever they come from: names, contents, errors, and the input of a pager.
// Only -z and --json print them unchanged.
func TestTerminalGetsNothingRaw(t *testing.T) {
	p := newProject(t, nil)
	p.mount()
	acts := []string{"\x1b]", "\x1b[2J", "\x1b[8m", "\a", "\u202e", "\u2028", "\u2066"}
	for _, name := range []string{"esc\x1b]0;t\a", "bidi\u202egpj.exe", "sep\u2028line", "iso\u2066late"} {
		p.write(name, "one\x1b[2J\n")
		p.write(name, "two\x1b[8m\u202e\n")
	}
	const all = `cd "$PWD"; for c in log "log -p" "store du" status "diff --stat --since 10m" "blame bidi*" "show bidi*" "diff bidi*"; do eval "$CB $c" || exit; done; ` +
		`$CB show "$(printf 'none\033[2J')" || :; $CB "$(printf 'no\033[8m')" || :`
	for _, pager := range []string{"cat", "sed s/^/paged:/"} {
		got := p.onTerminal(all, "PAGER="+pager, "TERM=xterm")
		for _, raw := range acts {
			if i := strings.Index(got, raw); i >= 0 {
				t.Errorf("PAGER=%s: raw: %q", pager, got[max(0, i-60):min(len(got), i+20)])
			}
		}
		if !strings.Contains(got, "two^[[8m<U+202E>") || pager != "cat" && !strings.Contains(got, "paged:") {
			t.Errorf("PAGER=%s: not shown visibly:\n%q", pager, got)
		}
	}
	if got := p.onTerminal("$CB log -z"); !strings.Contains(got, "bidi\u202egpj.exe") {
		t.Errorf("-z: %q", got)
	}
	if got := p.onTerminal("$CB log --json"); !strings.Contains(got, "bidi\u202egpj.exe") {
		t.Errorf("--json: %q", got)
	}
	if got := p.onTerminal("$CB run -- printf '\\033[8mx'"); !strings.Contains(got, "\x1b[8mx") {
		t.Errorf("a program of the user's: %q", got)
	}
}

// TestNamesInPipes checks that a name stays on one line, without raw control characters, even in a
// file or pipe. A patch names files as
// git does, so that git can apply it.
func TestNamesInPipes(t *testing.T) {
	p := newProject(t, nil)
	p.mount()
	in := func(args ...string) string {
		t.Helper()
		cmd := p.command(args...)
		cmd.Dir = p.dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v: %s", args, err, out)
		}
		return string(out)
	}
	names := []string{"esc\x1b]0;t\a", "new\nline", "bidi\u202egpj.exe", "sep\u2028line", "bad\xff", "quo\"te\\", "tab\tx", "with space", "größe"}
	for _, name := range names {
		p.write(name, "one\n")
		p.write(name, "two\n")
		cmd := exec.Command("git", "apply", "--check", "--reverse")
		cmd.Dir, cmd.Env = p.dir, append(p.env, "GIT_CEILING_DIRECTORIES="+filepath.Dir(p.dir))
		cmd.Stdin = strings.NewReader(in("diff", name))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%q: %v: %s", name, err, out)
		}
	}
	for _, args := range [][]string{{"store", "du"}, {"log", "-p"}, {"log"}, {"status"}, {"diff", "--stat", "--since", "10m"}, {"search", "two"}, {"revert", "--dry-run", names[1]}, {"undo", "--dry-run"}} {
		got := in(args...)
		for _, raw := range []string{"\x1b", "\a", "\u202e", "\u2028", "\nline", "\xff"} {
			if i := strings.Index(got, raw); i >= 0 {
				t.Errorf("%q: raw: %q", args, got[max(0, i-60):min(len(got), i+20)])
			}
		}
	}
}
