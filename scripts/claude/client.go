package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// bench holds what all runs share: an API, a project, and directories for the client and for
// cachebro that are separate from the user's own.
type bench struct {
	api      *api
	dir      string // the directory that contains everything
	project  string
	claude   string
	cachebro string
	extra    []string // added to the environment of the next run
	prompts  []string // the prompts that converse sends
	bare     bool     // run the client without cachebro
	results  int      // bytes of tool results that reached the model
	onTool   string   // interrupt stops the tool call that contains this command
	queueOn  string   // queue sends the next prompt during the tool call that contains this command
}

func (b *bench) env() []string {
	return append([]string{
		"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "TERM=dumb", "SHELL=/bin/bash", "TZ=UTC",
		"HOME=" + filepath.Join(b.dir, "home"),
		"XDG_STATE_HOME=" + filepath.Join(b.dir, "state"),
		"XDG_RUNTIME_DIR=" + filepath.Join(b.dir, "run"),
		"CLAUDE_CONFIG_DIR=" + filepath.Join(b.dir, "home", ".claude"),
		"ANTHROPIC_BASE_URL=" + b.api.URL, "ANTHROPIC_API_KEY=any",
		"IS_SANDBOX=1", // allows root to skip the permission questions
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1",
	}, b.extra...)
}

// run is the output of one run of the client, and how the run ended.
type run struct {
	stdout, stderr string
	err            error
	took           time.Duration
}

// with runs "cachebro run -- claude -p prompt args…"; plain runs the client alone.
func (b *bench) with(prompt string, args ...string) run {
	return b.start(append(b.run(), claudeArgs(prompt, args)...))
}

// run returns the command that starts the client under cachebro.
func (b *bench) run() []string {
	if b.bare {
		return []string{b.claude}
	}
	return []string{b.cachebro, "run", "--", b.claude}
}

// converse sends several prompts to one process, each when the answer to the previous one is
// complete.
func (b *bench) converse(prompts ...string) run {
	b.prompts = prompts
	defer func() { b.prompts = nil }()
	args := []string{"-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose", "--permission-mode", "bypassPermissions"}
	return b.start(append(b.run(), args...))
}

func (b *bench) plain(prompt string, args ...string) run {
	b.api.beside(true) // the results of this run are not counted among those of the scenario
	defer b.api.beside(false)
	return b.start(append([]string{b.claude}, claudeArgs(prompt, args)...))
}

func claudeArgs(prompt string, args []string) []string {
	return append([]string{"-p", prompt, "--output-format", "stream-json", "--verbose", "--include-hook-events", "--permission-mode", "bypassPermissions"}, args...)
}

// patience is how long a command may take.
const patience = 3 * time.Minute

func (b *bench) start(argv []string) run {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = b.project, b.env()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var out, errs bytes.Buffer
	cmd.Stderr = &errs
	begin := time.Now()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return run{err: err}
	}
	var stdin io.WriteCloser
	if b.prompts != nil {
		stdin, err = cmd.StdinPipe()
		if err != nil {
			return run{err: err}
		}
	}
	if err := cmd.Start(); err != nil {
		return run{err: err}
	}
	err = errors.Join(b.talk(stdin, stdout, &out), cmd.Wait())
	return run{out.String(), errs.String(), err, time.Since(begin)}
}

// interrupt is like converse, but it interrupts the client as a person would. It does so one second
// after the client announces the first call that contains the command.
func (b *bench) interrupt(command string, prompts ...string) run {
	b.onTool = command
	defer func() { b.onTool = "" }()
	return b.converse(prompts...)
}

// queue is like converse, but it sends the second prompt early: while the first prompt's call that
// contains the command is running.
func (b *bench) queue(command string, prompts ...string) run {
	b.queueOn = command
	defer func() { b.queueOn = "" }()
	return b.converse(prompts...)
}

// talk copies the client's output and sends the next prompt whenever the client is idle.
func (b *bench) talk(stdin io.WriteCloser, stdout io.Reader, out *bytes.Buffer) error {
	prompts := b.prompts
	send := func() error {
		if stdin == nil {
			return nil
		}
		if len(prompts) == 0 { // a client may report more results than there were prompts
			last := stdin
			stdin = nil
			return last.Close()
		}
		line, err := json.Marshal(map[string]any{"type": "user", "message": map[string]any{"role": "user", "content": prompts[0]}})
		if err != nil {
			return err
		}
		prompts = prompts[1:]
		_, err = stdin.Write(append(line, '\n'))
		return err
	}
	if err := send(); err != nil {
		return err
	}
	r := bufio.NewReader(stdout)
	for {
		line, err := r.ReadBytes('\n')
		out.Write(line)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if b.onTool != "" && bytes.Contains(line, []byte(`"type":"assistant"`)) && bytes.Contains(line, []byte(b.onTool)) {
			b.onTool = ""
			time.Sleep(time.Second)
			if _, err := io.WriteString(stdin, `{"type":"control_request","request_id":"1","request":{"subtype":"interrupt"}}`+"\n"); err != nil {
				return err
			}
		}
		if b.queueOn != "" && bytes.Contains(line, []byte(`"type":"assistant"`)) && bytes.Contains(line, []byte(b.queueOn)) {
			b.queueOn = ""
			if err := send(); err != nil {
				return err
			}
		}
		if bytes.Contains(line, []byte(`"type":"result"`)) {
			if err := send(); err != nil {
				return err
			}
		}
	}
}

// tool runs cachebro itself in the project and returns its output.
func (b *bench) tool(args ...string) (string, error) { return b.toolIn(b.project, args...) }

// umount runs cachebro umount outside of the project, because a process whose working directory is
// in the mount keeps it busy.
func (b *bench) umount() (string, error) { return b.toolIn(b.dir, "umount", b.project) }

// endDaemon stops the store daemon and waits until it has ended. Otherwise the daemon would go on
// running for a project that no longer exists.
func (b *bench) endDaemon() {
	pid, err := b.daemonPID()
	if err != nil {
		return
	}
	for range 500 {
		if syscall.Kill(pid, syscall.SIGTERM) != nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (b *bench) daemonPID() (int, error) {
	out, err := b.toolIn(b.dir, "status", "--json", "--dir", b.project)
	var s struct {
		DaemonPID int `json:"daemon_pid"`
	}
	if err == nil {
		err = json.Unmarshal([]byte(out), &s)
	}
	if err == nil && s.DaemonPID < 2 {
		err = errors.New("status names no daemon")
	}
	return s.DaemonPID, err
}

func (b *bench) toolIn(dir string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.cachebro, args...)
	cmd.Dir, cmd.Env = dir, b.env()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// session finds the session id that the client reported.
func (r run) session() string {
	_, rest, ok := strings.Cut(r.stdout, `"session_id":"`)
	if !ok {
		return ""
	}
	id, _, _ := strings.Cut(rest, `"`)
	return id
}

// newProject writes a git repository with files of known sizes.
func (b *bench) newProject() error {
	b.project = filepath.Join(b.dir, "project")
	for _, d := range []string{"project/src", "home/.claude", "state", "run"} {
		if err := os.MkdirAll(filepath.Join(b.dir, d), 0o700); err != nil {
			return err
		}
	}
	files := map[string]string{
		"src/big.go":  lines(1, 900),    // 40 kB
		"src/mid.go":  lines(1001, 300), // below the client's limit for output of commands
		"src/huge.go": lines(1, 6000),   // above the client's limit for a Read
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(b.project, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "."}, {"-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", "start"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = b.project
		if out, err := cmd.CombinedOutput(); err != nil {
			return errors.Join(err, errors.New(string(out)))
		}
	}
	return nil
}

func lines(from, n int) string {
	var s strings.Builder
	for i := from; i < from+n; i++ {
		fmt.Fprintf(&s, "var v%04d = %d // line %d of this\n", i, i, i-from+1)
	}
	return s.String()
}
