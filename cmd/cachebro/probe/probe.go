// Package probe finds out whether an installed client honours results that a
// hook rewrote. It stands beside doctor at the end of observe → version → index
// → serve: what rewriting saves depends on it, and no client says so.
//
// It runs the real client, with a configuration directory of its own, against a
// Messages API on loopback that knows one conversation: read a file, read
// another one, show a third by a shell command, done. The client's requests hold
// what the model would have been given. Nothing leaves the machine, no account
// is used, and nothing of the user's configuration is read or written.
//
// Format: the API's requests and its answers as server-sent events, as far as
// this needs them (see messages.go).
package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"cachebro/hooks"
)

// Options of one probe.
type Options struct {
	Client string // the client's binary, absolute
	Exe    string // ours, for the hooks
	Path   string // $PATH for the client
	Now    func() time.Time
}

// original is what the files hold; the model must not get it.
const original = "these are the file's own words"

// Version asks the client for its version: "claude-code/2.1.197".
func Version(ctx context.Context, client string) (string, error) {
	cmd := exec.CommandContext(ctx, client, "--version")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("ask the client for its version: %w", err)
	}
	number, name, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	if !strings.Contains(name, "Claude Code") || number == "" {
		return "", fmt.Errorf("the client says %q of its version", firstLine(out))
	}
	return "claude-code/" + number, nil
}

// Rewriting runs the conversation. The result says nothing of what failed: an
// error means that nothing is known.
func Rewriting(ctx context.Context, opt Options) (hooks.Probe, error) {
	result := hooks.Probe{Time: opt.Now()}
	var err error
	if result.Client, err = Version(ctx, opt.Client); err != nil {
		return result, err
	}
	dir, err := os.MkdirTemp("", "cachebro-probe-")
	if err != nil {
		return result, err
	}
	defer os.RemoveAll(dir)
	dir, err = filepath.EvalSymlinks(dir)
	if err != nil {
		return result, err
	}
	work := filepath.Join(dir, "work")
	names := []string{filepath.Join(work, "text.txt"), filepath.Join(work, hooks.ProbeUnchanged+".txt"), filepath.Join(work, "shell.txt")}
	if err := os.Mkdir(work, 0o700); err != nil {
		return result, err
	}
	for _, name := range names {
		if err := os.WriteFile(name, []byte(strings.Repeat(original+"\n", 8)), 0o600); err != nil {
			return result, err
		}
	}
	a := &api{calls: []call{
		{"Read", map[string]any{"file_path": names[0]}},
		{"Read", map[string]any{"file_path": names[1]}},
		{"Bash", map[string]any{"command": "cat shell.txt", "description": "show a file"}},
	}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return result, fmt.Errorf("listen on loopback: %w", err)
	}
	srv := &http.Server{Handler: a, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1) // one send, when the server is closed
	go func() { served <- srv.Serve(l) }()
	said, err := opt.run(ctx, dir, work, "http://"+l.Addr().String())
	srv.Close()
	<-served
	got := a.results()
	if len(got) < len(a.calls) {
		return result, fmt.Errorf("the client made %d of %d tool calls: %w", len(got), len(a.calls), errors.Join(err, errors.New(firstLine(said))))
	}
	replaced := func(i int) bool {
		return strings.Contains(got[i], hooks.ProbeText) && !strings.Contains(got[i], original)
	}
	// The client's own words for "unchanged" differ from version to version.
	short := strings.ToLower(got[1])
	result.Read, result.Shell = replaced(0), replaced(2)
	result.Unchanged = strings.Contains(short, "unchanged") && !strings.Contains(short, original) && len(short) < len(original)*8
	return result, nil
}

// run starts the client and waits for it. It is ended when ctx is, with all that
// it started.
func (opt Options) run(ctx context.Context, dir, work, url string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, opt.Client, "-p", "probe", "--output-format", "json", "--allowedTools=Read,Bash",
		"--settings="+string(hooks.ClaudeSettings(opt.Exe, "--probe")))
	cmd.Dir = work
	cmd.Env = []string{
		"PATH=" + opt.Path, "HOME=" + dir, "CLAUDE_CONFIG_DIR=" + filepath.Join(dir, "config"), "TMPDIR=" + dir,
		"LANG=C.UTF-8", "TERM=dumb", "SHELL=/bin/sh",
		"ANTHROPIC_BASE_URL=" + url, "ANTHROPIC_API_KEY=none",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1",
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 2 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return out.Bytes(), fmt.Errorf("run the client: %w", errors.Join(ctx.Err(), err))
	}
	return out.Bytes(), nil
}

func firstLine(b []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
	if len(line) > 200 {
		line = line[:200]
	}
	return line
}
