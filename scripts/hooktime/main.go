// Command hooktime measures what hooks cost. It starts whole processes of the finished binary, as
// an agent's client does, in a new project.
//
//	hooktime -cachebro bin/cachebro [-n 200]
//
// For each case it prints p50 and p99 of the wall clock and the CPU time per process. The cases are
// the usual events: with a daemon that answers, without a daemon, and outside any project. A
// further case is 20 tool calls with a stopped daemon (SIGSTOP). They may take a second longer than
// with a running daemon. The exit status is 1 if a hook failed or wrote to stderr, or if a p50 is
// above 15 ms or a p99 above 40 ms.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	shouldP50 = 15 * time.Millisecond
	shouldP99 = 40 * time.Millisecond
)

func main() {
	cachebro := flag.String("cachebro", "bin/cachebro", "the cachebro binary")
	n := flag.Int("n", 200, "the number of processes per case")
	flag.Parse()
	exe, err := filepath.Abs(*cachebro)
	if err == nil {
		err = measure(exe, *n)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "hooktime:", err)
		os.Exit(1)
	}
}

// place is a project with its own directories for everything.
type place struct{ exe, dir, project string }

func (p place) env() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + p.dir, "LANG=C.UTF-8",
		"XDG_STATE_HOME=" + filepath.Join(p.dir, "state"), "XDG_RUNTIME_DIR=" + filepath.Join(p.dir, "run"),
		"CLAUDE_PROJECT_DIR=" + p.project, "AI_AGENT=claude-code_2-1-197_harness",
	}
}

func (p place) cachebro(args ...string) (string, error) {
	cmd := exec.Command(p.exe, args...)
	cmd.Dir, cmd.Env = p.dir, p.env()
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("cachebro %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), err
}

func measure(exe string, n int) (err error) {
	dir, err := os.MkdirTemp("", "hooktime-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	p := place{exe, dir, filepath.Join(dir, "project")}
	text := strings.Repeat("a line of a file that is read again and again\n", 400)
	for _, d := range []string{"project", "run", "outside"} {
		err = errors.Join(err, os.Mkdir(filepath.Join(dir, d), 0o700))
	}
	err = errors.Join(err, os.WriteFile(filepath.Join(p.project, "a.go"), []byte(text), 0o600))
	if err != nil {
		return err
	}
	if _, err := p.cachebro("mount", p.project); err != nil {
		return err
	}
	defer func() {
		_, uerr := p.cachebro("umount", p.project)
		err = errors.Join(err, uerr)
	}()
	daemon, err := p.daemon()
	if err != nil {
		return err
	}
	defer syscall.Kill(daemon, syscall.SIGTERM) //nolint:errcheck // the daemon may have ended already
	event := func(name, tool string, more string) string {
		return fmt.Sprintf(`{"session_id":"s1","prompt_id":"p1","transcript_path":"","cwd":%q,"hook_event_name":%q,"tool_name":%q,"tool_use_id":"t1"%s}`, p.project, name, tool, more)
	}
	quoted, _ := json.Marshal(text) // a string can always be encoded
	path := filepath.Join(p.project, "a.go")
	read := event("PostToolUse", "Read", fmt.Sprintf(`,"tool_input":{"file_path":%q},"tool_response":{"type":"text","file":{"filePath":%q,"content":%s,"numLines":401,"startLine":1,"totalLines":401}}`, path, path, quoted))
	shell := event("PreToolUse", "Bash", `,"tool_input":{"command":"make test"}`)
	batch := event("PostToolBatch", "", `,"tool_calls":[{"tool_name":"Read","tool_use_id":"t1","tool_input":{},"tool_response":"1\ta line"}]`)
	// These are long outputs of commands. Hooks look only at a part of them.
	hits := func(size int) string {
		var b strings.Builder
		for i := 0; b.Len() < size; i++ {
			fmt.Fprintf(&b, "src/some/dir/file%d.go:%d:\tif err := f(%d); err != nil {\n", i/20, i, i%7)
		}
		quoted, _ := json.Marshal(b.String()) // a string can always be encoded
		return event("PostToolUse", "Bash", fmt.Sprintf(`,"tool_input":{"command":"grep -rn err src"},"tool_response":{"stdout":%s,"stderr":"","interrupted":false,"isImage":false}`, quoted))
	}
	cases := []struct{ name, line, event string }{
		{"PostToolUse Bash, 30 kB", "PostToolUse", hits(30 << 10)},
		{"PostToolUse Bash, 1 MB", "PostToolUse", hits(1 << 20)},
		{"PreToolUse Bash", "PreToolUse", shell},
		{"PostToolUse Read, 18 kB", "PostToolUse", read},
		{"PostToolBatch", "PostToolBatch", batch},
		{"Stop", "Stop", event("Stop", "", "")},
		{"outside of a project", "PreToolUse", strings.ReplaceAll(shell, p.project, filepath.Join(dir, "outside"))},
	}
	fmt.Printf("%-28s %8s %8s %8s\n", "", "p50", "p99", "CPU")
	slow := 0
	for _, c := range cases {
		ok, err := p.times(c.name, c.line, c.event, n)
		if err != nil {
			return err
		}
		if !ok {
			slow++
		}
	}
	running, err := p.twenty(shell)
	if err != nil {
		return err
	}
	if err := syscall.Kill(daemon, syscall.SIGSTOP); err != nil {
		return err
	}
	stopped, err := p.twenty(shell)
	err = errors.Join(err, syscall.Kill(daemon, syscall.SIGCONT))
	if err != nil {
		return err
	}
	fmt.Printf("20 tool calls: %d ms with a running daemon, %d ms with a stopped one\n", running.Milliseconds(), stopped.Milliseconds())
	if stopped > running+time.Second {
		slow++
	}
	// Remove the marker file that makes hooks do nothing for 30 s. The next case measures hooks
	// that do their work.
	marks, _ := filepath.Glob(filepath.Join(dir, "run", "cachebro", "*.hooks-off"))
	for _, m := range marks {
		err = errors.Join(err, os.Remove(m))
	}
	err = errors.Join(err, p.end(daemon))
	if err != nil {
		return err
	}
	// Unmount first. On a mount, mountd would soon start another daemon.
	if _, err := p.cachebro("umount", p.project); err != nil {
		return err
	}
	daemon, err = p.daemon()
	if err == nil {
		err = p.end(daemon)
	}
	if err != nil {
		return err
	}
	ok, err := p.times("without a daemon", "PreToolUse", shell, n)
	if _, merr := p.cachebro("mount", p.project); merr != nil { // mount again, because the deferred umount expects a mount
		err = errors.Join(err, merr)
	}
	if !ok {
		slow++
	}
	if err == nil && slow > 0 {
		err = fmt.Errorf("%d cases above p50 %s, p99 %s, or a second for a stopped daemon", slow, shouldP50, shouldP99)
	}
	return err
}

// daemon returns the pid of the project's daemon.
func (p place) daemon() (int, error) {
	out, err := p.cachebro("status", "--json", "--dir", p.project)
	if err != nil {
		return 0, err
	}
	var s struct {
		DaemonPID int `json:"daemon_pid"`
	}
	if err := json.Unmarshal([]byte(out), &s); err != nil || s.DaemonPID < 2 {
		return 0, fmt.Errorf("status names no daemon: %s", out)
	}
	return s.DaemonPID, nil
}

// end stops a daemon and waits until the process has ended.
func (p place) end(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		return err
	}
	for range 1000 {
		if syscall.Kill(pid, 0) != nil {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("the daemon (pid %d) does not end", pid)
}

// hook runs one hook as a process and checks that it succeeds and writes nothing to stderr.
func (p place) hook(line, event string) (wall, cpu time.Duration, err error) {
	cmd := exec.Command(p.exe, "hook", line)
	cmd.Dir, cmd.Env, cmd.Stdin = p.dir, p.env(), strings.NewReader(event)
	if strings.Contains(event, filepath.Join(p.dir, "outside")) {
		cmd.Env = slices.DeleteFunc(cmd.Env, func(kv string) bool { return strings.HasPrefix(kv, "CLAUDE_PROJECT_DIR=") })
	}
	var errText bytes.Buffer
	cmd.Stderr = &errText
	start := time.Now()
	err = cmd.Run()
	wall = time.Since(start)
	if err != nil || errText.Len() > 0 {
		return 0, 0, fmt.Errorf("hook %s: %w: %s", line, errors.Join(errors.New("it failed or spoke"), err), errText.String())
	}
	return wall, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}

func (p place) times(name, line, event string, n int) (ok bool, err error) {
	var walls []time.Duration
	var cpu time.Duration
	for i := range n + 5 {
		w, c, err := p.hook(line, strings.ReplaceAll(event, `"t1"`, fmt.Sprintf(`"t%d"`, i)))
		if err != nil {
			return false, err
		}
		if i >= 5 { // the first five runs fill caches and do not count
			walls, cpu = append(walls, w), cpu+c
		}
	}
	slices.Sort(walls)
	p50, p99 := walls[n/2], walls[n*99/100]
	fmt.Printf("%-28s %8s %8s %8s\n", name, ms(p50), ms(p99), ms(cpu/time.Duration(n)))
	return p50 <= shouldP50 && p99 <= shouldP99, nil
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }

// twenty runs the 60 hooks of twenty tool calls.
func (p place) twenty(event string) (time.Duration, error) {
	start := time.Now()
	for i := range 60 {
		if _, _, err := p.hook("PreToolUse", strings.ReplaceAll(event, `"t1"`, fmt.Sprintf(`"h%d"`, i))); err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}
