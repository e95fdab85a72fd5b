package e2e

import (
	"encoding/json"
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

// typist types into an interactive shell on a terminal of its own.
type typist struct {
	p      *project
	master *os.File
	done   string // file beside the project into which each line writes its number when it ends
	n      int
}

func (p *project) typist(shell ...string) *typist {
	p.t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		p.t.Fatal(err)
	}
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
	cmd := exec.Command(shell[0], shell[1:]...)
	cmd.Dir, cmd.Env = p.dir, append(p.env, "TERM=xterm", "HISTFILE=")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	err = cmd.Start()
	tty.Close()
	if err != nil {
		p.t.Fatal(err)
	}
	read := make(chan struct{})
	go func() { // read the output, so that the shell never waits
		defer close(read)
		buf := make([]byte, 4096)
		for {
			if _, err := master.Read(buf); err != nil {
				return
			}
		}
	}()
	p.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		master.Close()
		<-read
	})
	return &typist{p: p, master: master, done: filepath.Join(p.t.TempDir(), "done")}
}

// line types a line and waits until it has been carried out.
func (y *typist) line(text string) {
	y.p.t.Helper()
	y.n++
	want := fmt.Sprintln(y.n)
	if _, err := fmt.Fprintf(y.master, "%s; echo %d > %s\r", text, y.n, y.done); err != nil {
		y.p.t.Fatal(err)
	}
	eventually(y.p.t, 30*time.Second, text, func() bool {
		b, _ := os.ReadFile(y.done)
		return string(b) == want
	})
}

// tree returns the project's files without git's own.
func (p *project) tree() string {
	return p.sh(`find . -name .git -prune -o -type f -print | sort | while read -r f; do echo "$f: $(od -An -tx1 "$f" | tr -d '\n')"; done`)
}

// Each line that a person types is one action of the log, whether the shell carries it out by
// itself or starts other processes. undo reverses these actions one after the other. Two commands
// of one shell within five seconds used to be one action, so an undo deleted a file that had been
// committed earlier. A line of several commands used to be many actions.
func TestUndoRetracesTypedLines(t *testing.T) {
	for _, shell := range [][]string{{"bash", "--norc", "--noprofile", "-i"}, {"zsh", "-f", "-i"}} {
		t.Run(shell[0], func(t *testing.T) {
			if _, err := exec.LookPath(shell[0]); err != nil {
				t.Skip(err)
			}
			p := newProject(t, map[string]string{"a": "1\n", "b": "2\n"})
			p.mount()
			y := p.typist(shell...)
			states := []string{p.tree()}
			for _, text := range []string{
				"echo A > notes",
				"printf oops > notes",
				"echo x > f; sed -i s/x/y/ f; echo g > g",
				"sh -c 'sed -i s/1/3/ a; sed -i s/2/4/ b; rm f'",
				"sort a b | tee c > d",
				"for i in 1 2 3; do echo $i > l$i; done",
				"x=$(cat a); echo \"$x more\" > b",
				"while read -r l; do echo $l more; done < a > w 2> v",
				"echo w > w2",
				"echo again > notes",
				"(echo sub > notes)",
				"mv notes moved",
				"echo last > moved",
			} {
				y.line(text)
				states = append(states, p.tree())
			}
			var told []string
			for _, l := range strings.Split(strings.TrimSpace(p.cb("log", "--actions", "--json", p.dir)), "\n") {
				var a struct {
					Count int `json:"count"`
				}
				if err := json.Unmarshal([]byte(l), &a); err != nil {
					t.Fatal(err)
				}
				if a.Count > 0 {
					told = append(told, l)
				}
			}
			if len(told) != len(states)-1 {
				t.Errorf("%d lines of the log for %d that were typed:\n%s", len(told), len(states)-1, strings.Join(told, "\n"))
			}
			for i := len(states) - 2; i >= 0; i-- {
				p.cb("undo", "--yes", "--dir", p.dir)
				if got := p.tree(); got != states[i] {
					t.Fatalf("undo %d: got\n%s\nwant\n%s", len(states)-1-i, got, states[i])
				}
			}
		})
	}
}
