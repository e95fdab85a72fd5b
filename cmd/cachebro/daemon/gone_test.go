package daemon

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"cachebro/store/wire"
)

// child starts a daemon in a process of its own. The process ends with the test.
func (p *project) child(stuck string) *exec.Cmd {
	p.t.Helper()
	self, err := os.Executable()
	if err != nil {
		p.t.Fatal(err)
	}
	cmd := exec.Command(self, "daemon", "--root", p.root)
	cmd.Env = append(os.Environ(), childDir+"="+filepath.Dir(p.root), childStuck+"="+stuck)
	log, err := os.Create(filepath.Join(filepath.Dir(p.root), "stderr"))
	if err != nil {
		p.t.Fatal(err)
	}
	defer log.Close()
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

func (p *project) said(text string) bool {
	b, _ := os.ReadFile(filepath.Join(filepath.Dir(p.root), "stderr"))
	return strings.Contains(string(b), text)
}

// answers waits until the child answers requests.
func (p *project) answers() {
	p.t.Helper()
	eventually(p.t, "the daemon answers", func() bool {
		c, err := wire.Dial(context.Background(), p.paths, wire.Hello{Version: "1.0", Client: "cli", Root: p.root}, wire.Timeouts{})
		if err != nil {
			return false
		}
		c.Close()
		return true
	})
}

// mustEnd waits for the end of a child, and fails the test if the child still runs after a minute.
func mustEnd(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-ended:
	case <-time.After(60 * time.Second):
		t.Error("it lives on")
		_ = cmd.Process.Kill()
		<-ended
	}
}

// A daemon used to run for days after its project and its state were deleted. It used half a
// processor, because each second bleve tried again to merge into the deleted directory. Even after
// SIGTERM it first waited for bleve.
func TestGone(t *testing.T) {
	socket := func(p *project) string {
		return filepath.Join(p.paths.RuntimeDir, "cachebro", wire.Key(p.root)+".sock")
	}
	for _, c := range []struct {
		name string
		do   func(p *project) error
	}{
		{"state removed", func(p *project) error { return os.RemoveAll(p.state) }},
		{"state renamed", func(p *project) error { return os.Rename(p.state, p.state+".old") }},
		{"state replaced", func(p *project) error {
			if err := os.Rename(p.state, p.state+".old"); err != nil {
				return err
			}
			return os.CopyFS(p.state, os.DirFS(p.state+".old"))
		}},
		{"all states removed", func(p *project) error { return os.RemoveAll(filepath.Dir(p.state)) }},
		{"socket removed", func(p *project) error { return os.Remove(socket(p)) }},
		{"socket replaced", func(p *project) error {
			if err := os.WriteFile(socket(p)+".new", nil, 0o600); err != nil {
				return err
			}
			return os.Rename(socket(p)+".new", socket(p))
		}},
		{"project removed", func(p *project) error { return os.RemoveAll(p.root) }},
		{"project renamed", func(p *project) error { return os.Rename(p.root, p.root+".old") }},
		{"project replaced", func(p *project) error {
			if err := os.Rename(p.root, p.root+".old"); err != nil {
				return err
			}
			return os.Mkdir(p.root, 0o755)
		}},
		{"project and state removed", func(p *project) error {
			if err := os.RemoveAll(p.state); err != nil {
				return err
			}
			return os.RemoveAll(p.root)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t)
			for _, name := range []string{"a.go", "b.md"} {
				p.write(name, strings.Repeat("one line of many words\n", 200))
			}
			cmd := p.child("")
			p.answers()
			if err := c.do(p); err != nil {
				t.Fatal(err)
			}
			mustEnd(t, cmd)
		})
	}
}

// SIGTERM ends a daemon whatever it is doing, even while it starts.
func TestTermEnds(t *testing.T) {
	for _, stuck := range []string{"open", "work"} {
		t.Run(stuck, func(t *testing.T) {
			t.Parallel()
			p := newProject(t)
			cmd := p.child(stuck)
			if stuck == "work" {
				p.answers()
				c := p.dial("cli")
				go func() {
					_, _ = c.Call(context.Background(), wire.MStore, wire.StoreRequest{Do: "gc"}, nil, nil)
				}()
			}
			eventually(t, "stuck", func() bool { return p.said("stuck") })
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			mustEnd(t, cmd)
		})
	}
}
