package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"cachebro/store/leaf/procfs"
	"cachebro/store/wire"
)

// project is a mounted directory with its own state directory.
type project struct {
	binary, version string
	base, dir       string
	env             []string
	paths           wire.Paths
}

// newProject makes a project from files and mounts it.
func newProject(binary, version string, files map[string]string) (*project, error) {
	base, err := os.MkdirTemp("", "cachebro-replay")
	if err != nil {
		return nil, err
	}
	base, err = filepath.EvalSymlinks(base)
	if err != nil {
		return nil, err
	}
	p := &project{binary: binary, version: version, base: base, dir: filepath.Join(base, "project")}
	p.paths = wire.Paths{RuntimeDir: filepath.Join(base, "run"), StateHome: filepath.Join(base, "state"), Home: filepath.Join(base, "home")}
	for _, d := range []string{p.dir, p.paths.StateHome, p.paths.Home, p.paths.RuntimeDir} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, err
		}
	}
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, "XDG_") && !strings.HasPrefix(name, "CACHEBRO_") && !strings.HasPrefix(name, "CLAUDE") && name != "AI_AGENT" {
			p.env = append(p.env, kv)
		}
	}
	p.env = append(p.env, "XDG_STATE_HOME="+p.paths.StateHome, "XDG_RUNTIME_DIR="+p.paths.RuntimeDir, "HOME="+p.paths.Home,
		"CLAUDE_PROJECT_DIR="+p.dir, "AI_AGENT="+agentName, "NO_COLOR=1")
	for name, text := range files {
		if err := p.write(name, text); err != nil {
			return p, err
		}
	}
	if out, err := p.command("mount", "--exact", p.dir).CombinedOutput(); err != nil {
		return p, fmt.Errorf("mount: %w: %s", err, out)
	}
	return p, p.baseline()
}

// agentName is the name that the client puts into the environment of its hooks.
const agentName = "claude-code_2-1-197_agent"

// baseline waits until all existing files have been captured.
func (p *project) baseline() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := p.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	for {
		var s wire.Status
		if _, err := c.Call(ctx, wire.MStatus, wire.Empty{}, nil, &s); err != nil {
			return err
		}
		if s.Baseline.Done {
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (p *project) dial(ctx context.Context) (*wire.Client, error) {
	return wire.Dial(ctx, p.paths, wire.Hello{Version: p.version, Client: "hook", Root: p.dir}, wire.Timeouts{})
}

func (p *project) command(args ...string) *exec.Cmd {
	cmd := exec.Command(p.binary, args...)
	cmd.Dir, cmd.Env = p.base, p.env
	return cmd
}

func (p *project) path(name string) string { return filepath.Join(p.dir, name) }

func (p *project) write(name, text string) error {
	if err := os.MkdirAll(filepath.Dir(p.path(name)), 0o755); err != nil {
		return err
	}
	return os.WriteFile(p.path(name), []byte(text), 0o644)
}

// others writes a file through a process that does not belong to the session, because the process's
// ancestors have ended.
func (p *project) others(name, text string) error {
	from, done := filepath.Join(p.base, "theirs"), filepath.Join(p.base, "theirs-done")
	if err := os.WriteFile(from, []byte(text), 0o600); err != nil {
		return err
	}
	_ = os.Remove(done)
	cmd := exec.Command("setsid", "-f", "sh", "-c", `cat "$1" > "$2"; : > "$3"`, "sh", from, p.path(name), done)
	cmd.Dir, cmd.Env = p.base, []string{"PATH=" + os.Getenv("PATH")}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("setsid: %w: %s", err, out)
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if _, err := os.Stat(done); err == nil {
			return nil
		}
	}
	return fmt.Errorf("nobody wrote %s", name)
}

// close unmounts the project, ends the daemon and removes everything.
func (p *project) close() error {
	var errs []error
	if out, err := p.command("umount", p.dir).CombinedOutput(); err != nil {
		errs = append(errs, fmt.Errorf("umount: %w: %s", err, out))
		_ = exec.Command("umount", "-l", p.dir).Run()
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		left := p.processes()
		if len(left) == 0 {
			break
		}
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGTERM)
		}
		if time.Now().After(deadline) {
			errs = append(errs, fmt.Errorf("processes %v are still running", left))
			break
		}
	}
	return errors.Join(append(errs, os.RemoveAll(p.base))...)
}

// processes returns the pids of the processes that have this project's runtime directory in their
// environment.
func (p *project) processes() (pids []int) {
	mark := []byte("XDG_RUNTIME_DIR=" + p.paths.RuntimeDir)
	for _, pid := range procfs.All() {
		if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err != nil || !strings.HasPrefix(exe, p.binary) {
			continue
		}
		if env, _ := procfs.Environ(pid); bytes.Contains(env, mark) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// build builds the binary for the replay, unless a binary is given. It returns the binary's
// version.
func build(dir, given string) (binary, version string, err error) {
	binary = filepath.Join(dir, "cachebro")
	if given != "" {
		binary, err = filepath.Abs(given)
		if err != nil {
			return "", "", err
		}
	} else if out, err := exec.Command("go", "build", "-o", binary, "cachebro/cmd/cachebro").CombinedOutput(); err != nil {
		return "", "", fmt.Errorf("build: %w: %s", err, out)
	}
	out, err := exec.Command(binary, "version", "--json").Output()
	if err != nil {
		return "", "", fmt.Errorf("version: %w", err)
	}
	var v struct {
		Version string `json:"version"`
	}
	if err := json.Unmarshal(out, &v); err != nil {
		return "", "", fmt.Errorf("version: %w", err)
	}
	return binary, v.Version, nil
}
