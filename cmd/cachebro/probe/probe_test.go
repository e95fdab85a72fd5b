package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cachebro/hooks"
)

// The test binary plays the other two as well: a client of some kind, and our
// own hook. (The real client is driven by scripts/claude.)
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "played-hook" {
		env := hooks.Env{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Args: os.Args[3:], Getenv: os.Getenv, Now: time.Now, Limit: time.Minute}
		os.Exit(hooks.Run(context.Background(), env))
	}
	if len(os.Args) > 2 && os.Args[1] == "played-client" {
		if err := client(os.Args[2], os.Args[3:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// client makes the tool calls that it is told to, and gives the model what its
// kind makes of the hooks' answers.
func client(kind string, args []string) error {
	if args[0] == "--version" {
		fmt.Println("9.8.7 (Claude Code)")
		return nil
	}
	if kind == "fails" {
		return fmt.Errorf("no licence\nfor this")
	}
	var settings struct {
		Hooks map[string][]struct {
			Matcher string
			Hooks   []struct{ Command string }
		}
	}
	for _, a := range args {
		if text, ok := strings.CutPrefix(a, "--settings="); ok {
			if err := json.Unmarshal([]byte(text), &settings); err != nil {
				return err
			}
		}
	}
	messages := []any{map[string]any{"role": "user", "content": "probe"}}
	for {
		body, err := json.Marshal(map[string]any{"model": "m", "messages": messages, "tools": []any{map[string]any{"name": "Read"}}})
		if err != nil {
			return err
		}
		r, err := http.Post(os.Getenv("ANTHROPIC_BASE_URL")+"/v1/messages?beta=true", "application/json", bytes.NewReader(body))
		if err != nil {
			return err
		}
		var a struct {
			Content []struct {
				Type, ID, Name string
				Input          map[string]any
			}
		}
		err = json.NewDecoder(r.Body).Decode(&a)
		r.Body.Close()
		if err != nil || len(a.Content) == 0 || a.Content[0].Type != "tool_use" {
			return err
		}
		c := a.Content[0]
		var text string
		var response map[string]any
		if c.Name == "Read" {
			b, err := os.ReadFile(c.Input["file_path"].(string))
			if err != nil {
				return err
			}
			text = string(b)
			response = map[string]any{"type": "text", "file": map[string]any{"filePath": c.Input["file_path"], "content": text}}
		} else {
			b, err := exec.Command("sh", "-c", c.Input["command"].(string)).Output()
			if err != nil {
				return err
			}
			text, response = string(b), map[string]any{"stdout": string(b), "stderr": ""}
		}
		event, err := json.Marshal(map[string]any{"hook_event_name": "PostToolUse", "session_id": "s", "tool_name": c.Name, "tool_use_id": c.ID, "tool_input": c.Input, "tool_response": response})
		if err != nil {
			return err
		}
		hook := exec.Command("sh", "-c", settings.Hooks["PostToolUse"][0].Hooks[0].Command)
		hook.Stdin = bytes.NewReader(event)
		out, err := hook.Output()
		if err != nil {
			return err
		}
		var said struct {
			HookSpecificOutput struct {
				UpdatedToolOutput struct {
					Type, Stdout string
					File         struct{ Content string }
				}
			}
		}
		if err := json.Unmarshal(out, &said); err != nil {
			return fmt.Errorf("the hook said %q: %w", out, err)
		}
		switch new := said.HookSpecificOutput.UpdatedToolOutput; {
		case kind == "ignores", kind == "knows text" && new.Type != "text":
		case new.Type == "file_unchanged":
			text = "File unchanged since last read."
		case new.Type == "text":
			text = "1\t" + new.File.Content
		default:
			text = new.Stdout
		}
		messages = append(messages, map[string]any{"role": "assistant", "content": a.Content},
			map[string]any{"role": "user", "content": []any{map[string]any{"type": "tool_result", "tool_use_id": c.ID, "content": text}}})
	}
}

func script(t *testing.T, words string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "run")
	if err := os.WriteFile(name, []byte("#!/bin/sh\nexec '"+os.Args[0]+"' "+words+" \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestRewriting(t *testing.T) {
	for kind, want := range map[string]hooks.Probe{
		"honours":    {Read: true, Unchanged: true, Shell: true},
		"knows text": {Read: true},
		"ignores":    {},
	} {
		t.Run(kind, func(t *testing.T) {
			opt := Options{Client: script(t, "played-client '"+kind+"'"), Exe: script(t, "played-hook"), Path: os.Getenv("PATH"), Now: time.Now}
			got, err := Rewriting(t.Context(), opt)
			if err != nil {
				t.Fatal(err)
			}
			want.Client, want.Time = "claude-code/9.8.7", got.Time
			if got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
	opt := Options{Client: script(t, "played-client fails"), Exe: "cachebro", Path: os.Getenv("PATH"), Now: time.Now}
	if _, err := Rewriting(t.Context(), opt); err == nil || !strings.Contains(err.Error(), "0 of 3 tool calls") || !strings.Contains(err.Error(), "no licence") {
		t.Errorf("a client that does not run: %v", err)
	}
	if _, err := Version(t.Context(), "/bin/echo"); err == nil {
		t.Error("echo passes for a client")
	}
}

// The client asks for a stream as a rule; both forms say the same.
func TestReplyAsStream(t *testing.T) {
	a := &api{calls: []call{{"Read", map[string]any{"file_path": "/x"}}}}
	for body, want := range map[string]string{
		`{"stream":true,"model":"m","tools":[{}],"messages":[{"content":"hello"}]}`:                                                                                        `"partial_json":"{\"file_path\":\"/x\"}"`,
		`{"stream":true,"model":"m","messages":[{"content":"a title for this"}]}`:                                                                                          `"text":"done"`,
		`{"stream":true,"model":"m","tools":[{}],"messages":[{"content":[{"type":"tool_result","tool_use_id":"toolu_probe0","content":[{"type":"text","text":"one"}]}]}]}`: `"text":"done"`,
	} {
		w := &recorder{header: http.Header{}}
		r, err := http.NewRequest(http.MethodPost, "/v1/messages", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		a.ServeHTTP(w, r)
		if got := w.String(); !strings.Contains(got, want) || !strings.HasSuffix(got, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n") {
			t.Errorf("%s\n%s", body, got)
		}
	}
	if got := a.results(); len(got) != 1 || got[0] != "one" {
		t.Errorf("results: %q", got)
	}
}

type recorder struct {
	bytes.Buffer
	header http.Header
}

func (r *recorder) Header() http.Header { return r.header }
func (r *recorder) WriteHeader(int)     {}
