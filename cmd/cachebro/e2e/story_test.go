package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

// action is one line of log --actions --json, with the fields that are tested here.
type action struct {
	Command string `json:"command"`
	Asked   string `json:"asked"`
	Count   int    `json:"count"`
	Files   []struct {
		Path, Change string
	} `json:"files"`
	Actor struct {
		Comm  string `json:"comm"`
		Agent string `json:"agent"`
	} `json:"actor"`
}

func (p *project) actions() (all []action) {
	p.t.Helper()
	dec := json.NewDecoder(strings.NewReader(p.cb("log", "--actions", "--json", p.dir)))
	for dec.More() {
		var a action
		if err := dec.Decode(&a); err != nil {
			p.t.Fatal(err)
		}
		all = append(all, a)
	}
	return all
}

// job starts a command in the project as a shell does at its prompt, in a process group of its
// own. It runs until the returned function is called.
func (p *project) job(args ...string) (end func()) {
	p.t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env = p.dir, p.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	end = func() { in.Close(); _ = cmd.Wait() }
	p.t.Cleanup(end)
	return end
}

// hook reports a client's event to cachebro.
func (p *project) hook(event string, more map[string]any) {
	p.t.Helper()
	m := map[string]any{"session_id": "S1", "prompt_id": "P1", "cwd": p.dir, "hook_event_name": event}
	for k, v := range more {
		m[k] = v
	}
	b, err := json.Marshal(m)
	if err != nil {
		p.t.Fatal(err)
	}
	cmd := p.command("hook")
	cmd.Env = append(cmd.Env, "CACHEBRO_HOOK_WAIT=30s")
	cmd.Stdin = bytes.NewReader(b)
	if out, err := cmd.CombinedOutput(); err != nil {
		p.t.Fatalf("hook %s: %v\n%s", event, err, out)
	}
}

// The log shows the commands that were run, including those that a shell started as one job. It
// also shows an agent's prompt and tool call. Neither the log nor the store, as an export shows,
// contains the secrets that command lines and prompts often contain.
func TestLogTellsTheStory(t *testing.T) {
	p := newProject(t, map[string]string{"a": "one\ntwo\n", "d/x": "1\n"})
	p.mount()
	const secret = "s3cr3tvalue"
	jobs := map[string][]string{
		"held": {"sh", "-c", "echo x >held; sh -c 'echo y >inner; read l'; read l"},
		"h1":   {"sh", "-c", "echo x >h1; read l", "sh", "--password", secret},
		"h2":   {"sh", "-c", "curl -H 'Authorization: Bearer " + secret + "' x 2>/dev/null; echo x >h2; read l"},
		"h3":   {"sh", "-c", "echo x >h3; read l", "sh", "https://me:" + secret + "@host/x"},
		"h4":   {"sh", "-c", "echo x >h4; read l", "sh", "GITHUB_TOKEN=" + secret},
		"h5":   {"sh", "-c", "echo x >h5; read l", "sh", "s/a/" + secret + "/", ".env"},
	}
	var ends []func()
	for _, args := range jobs {
		ends = append(ends, p.job(args...))
	}
	want := map[string]string{
		"held": "echo x >held; sh -c 'echo y >inner; read l'; read l", "h1": "echo x >h1; read l", "h2": "curl -H 'Authorization: ***' x 2>/dev/null; echo x >h2; read l",
	}
	p.eventually("commands of the jobs", func() string {
		var out strings.Builder
		got := map[string]string{}
		for _, a := range p.actions() {
			for _, f := range a.Files {
				got[f.Path] = a.Command
			}
			fmt.Fprintf(&out, "%+v\n", a)
		}
		if got["inner"] != got["held"] {
			return "a job in two: " + out.String()
		}
		for file, command := range want {
			if got[file] != command {
				return out.String()
			}
		}
		return ""
	})
	for _, end := range ends {
		end()
	}
	p.hook("SessionStart", map[string]any{"source": "startup"})
	p.hook("UserPromptSubmit", map[string]any{"prompt": "rename it\nwith password=" + secret})
	p.hook("PreToolUse", map[string]any{"tool_name": "Bash", "tool_use_id": "T1", "tool_input": map[string]any{"command": "export API_KEY=" + secret + "; mv d e"}})
	for name, text := range map[string]string{
		"log": p.cb("log", p.dir), "log --stat": p.cb("log", "--stat", p.dir), "log --actions --json": p.cb("log", "--actions", "--json", p.dir),
		"log --json": p.cb("log", "--json", p.dir), "diff --stat": p.cb("diff", "--stat", "--since", "10m", p.dir), "undo --dry-run": p.within("undo", "--dry-run", "--since", "1h"),
	} {
		if strings.Contains(text, secret) {
			t.Errorf("%s tells the secret:\n%s", name, text)
		}
		if !strings.Contains(text, "held") {
			t.Errorf("%s does not tell of the file held:\n%s", name, text)
		}
	}
	file := filepath.Join(p.base, "history")
	p.within("store", "export", file)
	text := p.exported(file)
	if strings.Contains(text, secret) {
		t.Error("the store has the secret")
	}
	for _, s := range []string{"password=***", "API_KEY=***", "--password"} { // the rest was recorded
		if !strings.Contains(text, s) {
			t.Errorf("the store has not %q", s)
		}
	}
}

// With CACHEBRO_ARGV=off only the names of processes are stored.
func TestNoCommands(t *testing.T) {
	p := newProject(t, nil)
	p.env = append(p.env, "CACHEBRO_ARGV=off")
	p.mount()
	end := p.job("sh", "-c", "echo x >f; read l")
	p.hook("UserPromptSubmit", map[string]any{"prompt": "what nobody may keep"})
	p.eventually("the file", func() string {
		if a := p.actions(); len(a) != 1 || a[0].Actor.Comm != "sh" || !strings.HasPrefix(a[0].Command, "sh (pid ") {
			return fmt.Sprintf("%+v", a)
		}
		return ""
	})
	end()
	file := filepath.Join(p.base, "history")
	p.within("store", "export", file)
	if text := p.exported(file); strings.Contains(text, "read l") || strings.Contains(text, "nobody may") {
		t.Error("the store has commands or prompts")
	}
}

// within runs cachebro in the project.
func (p *project) within(args ...string) string {
	p.t.Helper()
	cmd := p.command(args...)
	cmd.Dir = p.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.t.Fatalf("%q: %v\n%s", args, err, out)
	}
	return string(out)
}

// exported returns the text of an exported history.
func (p *project) exported(file string) string {
	p.t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		p.t.Fatal(err)
	}
	raw := string(b)
	_, frame, ok := strings.Cut(raw, "\n")
	if !ok {
		p.t.Fatalf("an export of %d bytes", len(raw))
	}
	z, err := zstd.NewReader(strings.NewReader(frame))
	if err != nil {
		p.t.Fatal(err)
	}
	defer z.Close()
	b, err = io.ReadAll(z)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(b)
}

// eventually waits until bad returns "".
func (p *project) eventually(what string, bad func() string) {
	p.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		text := bad()
		if text == "" {
			return
		}
		if time.Now().After(end) {
			p.t.Fatalf("%s: %s", what, text)
		}
	}
}
