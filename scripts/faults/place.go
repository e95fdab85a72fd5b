//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// place is one project with its own cachebro state.
type place struct {
	base, dir, binary string
	env               []string
}

func newPlace(s settings) (*place, error) {
	binary, err := filepath.Abs(s.binary)
	if err != nil {
		return nil, err
	}
	base, err := os.MkdirTemp(s.dir, "cachebro-faults")
	if err != nil {
		return nil, err
	}
	p := &place{base: base, dir: filepath.Join(base, "project"), binary: binary}
	for _, d := range []string{"project", "state", "home", "run"} {
		if err := os.Mkdir(filepath.Join(base, d), 0o700); err != nil {
			return nil, err
		}
	}
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); !strings.HasPrefix(name, "XDG_") && !strings.HasPrefix(name, "CACHEBRO_") && !strings.HasPrefix(name, "CLAUDE") {
			p.env = append(p.env, kv)
		}
	}
	p.env = append(p.env, "XDG_STATE_HOME="+base+"/state", "XDG_RUNTIME_DIR="+base+"/run", "HOME="+base+"/home", "NO_COLOR=1")
	return p, nil
}

// command returns a cachebro command that has the place's environment and runs outside the project.
func (p *place) command(args ...string) *exec.Cmd {
	cmd := exec.Command(p.binary, args...)
	cmd.Dir, cmd.Env = p.base, p.env
	return cmd
}

// cachebro runs the binary. An error contains the output.
func (p *place) cachebro(args ...string) ([]byte, error) {
	cmd := p.command(args...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("cachebro %s: %w: %.600s%.600s", strings.Join(args, " "), err, said.String(), out)
	}
	return out, err
}

// processes returns the pids of the place's cachebro processes, by sub-command.
func (p *place) processes() map[string]int {
	found := map[string]int{}
	mark := []byte("XDG_RUNTIME_DIR=" + p.base + "/run\x00")
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		if exe, err := os.Readlink(d + "/exe"); err != nil || !strings.HasPrefix(exe, p.binary) {
			continue
		}
		if env, err := os.ReadFile(d + "/environ"); err != nil || !bytes.Contains(append(env, 0), mark) {
			continue
		}
		args, _ := os.ReadFile(d + "/cmdline")
		if f := strings.Split(string(args), "\x00"); len(f) > 1 && (len(f) < 3 || f[2] != "enter") { // a process with the argument "enter" is about to become a command of the user
			found[f[1]], _ = strconv.Atoi(filepath.Base(d))
		}
	}
	return found
}

func (p *place) mounted() bool {
	table, _ := os.ReadFile("/proc/self/mounts")
	return bytes.Contains(table, []byte(" "+p.dir+" fuse.cachebro "))
}

// remove unmounts, ends the daemon and deletes everything.
func (p *place) remove(keep bool) error {
	var errs []error
	if p.mounted() {
		if _, err := p.cachebro("umount", p.dir); err != nil {
			errs = append(errs, err, syscall.Unmount(p.dir, syscall.MNT_DETACH))
		}
	}
	for deadline := time.Now().Add(15 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		left := p.processes()
		if len(left) == 0 {
			break
		}
		for sub, pid := range left {
			sig := syscall.SIGTERM
			if time.Now().After(deadline) {
				errs = append(errs, fmt.Errorf("%s (pid %d) did not end", sub, pid))
				sig = syscall.SIGKILL
			}
			_ = syscall.Kill(pid, sig)
		}
	}
	if keep {
		fmt.Println("left in", p.base)
	} else {
		errs = append(errs, os.RemoveAll(p.base))
	}
	return errors.Join(errs...)
}

// version holds the fields of a version in the log's JSON.
type version struct {
	Seq   uint64 `json:"seq"`
	Path  string `json:"path"`
	From  string `json:"from"`
	Op    string `json:"op"`
	Hash  string `json:"hash"`
	Size  int64  `json:"size"`
	Actor struct {
		PID  uint32 `json:"pid"`
		Comm string `json:"comm"`
		By   string `json:"by"`
	} `json:"actor"`
	NoContent string `json:"no_content"`
}

// log returns the versions of the last seconds, including baselines.
func (p *place) log(seconds int) ([]version, error) {
	out, err := p.cachebro("log", "--json", "--baselines", "--limit", "1000000", "--since", fmt.Sprintf("%ds", seconds), "--", p.dir)
	if err != nil {
		return nil, err
	}
	var list []version
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var v version
		if err := dec.Decode(&v); err != nil {
			return nil, fmt.Errorf("log --json: %w", err)
		}
		list = append(list, v)
	}
	return list, nil
}
