package hooks

import (
	"encoding/json"
	"os"
	"strings"
	"sync"
	"testing"

	"cachebro/store/wire"
)

// A client's own tools must not write our answers into a file. If the text is an answer that the
// session was given, the call is denied, in the form that the client expects.
func TestOwnAnswersAreNotWritten(t *testing.T) {
	const given = "[unchanged · 499 lines · ~4.1k saved]"
	patch := func(line string) string {
		return "*** Begin Patch\n*** Update File: a.go\n@@\n-old\n+" + line + "\n*** End Patch"
	}
	for _, c := range []struct {
		client, event, tool string
		input               map[string]any
		denied              bool
	}{
		{"", "PreToolUse", "Write", map[string]any{"file_path": "PROJ/a.go", "content": given}, true},
		{"", "PreToolUse", "Edit", map[string]any{"file_path": "PROJ/a.go", "old_string": "a", "new_string": "b\n" + given + "\n"}, true},
		{"", "PreToolUse", "NotebookEdit", map[string]any{"notebook_path": "PROJ/a.ipynb", "new_source": given}, true},
		{"", "PreToolUse", "Edit", map[string]any{"file_path": "PROJ/doc.md", "old_string": "a", "new_string": given}, false},
		{"", "PreToolUse", "Write", map[string]any{"file_path": "PROJ/a.go", "content": "package a"}, false},
		{"", "PreToolUse", "Write", map[string]any{"file_path": "PROJ/a.go", "content": "[unchanged · 5 lines · ~1 saved]"}, false}, // this text was given to nobody
		{"codex", "PreToolUse", "apply_patch", map[string]any{"command": patch(given)}, true},
		{"codex", "PreToolUse", "apply_patch", map[string]any{"command": patch("new")}, false},
		{"gemini", "BeforeTool", "write_file", map[string]any{"file_path": "PROJ/a.go", "content": given}, true},
		{"gemini", "BeforeTool", "replace", map[string]any{"file_path": "PROJ/a.go", "old_string": "a", "new_string": given}, true},
		{"qwen", "PreToolUse", "edit", map[string]any{"file_path": "PROJ/a.go", "old_string": "a", "new_string": given}, true},
		{"opencode", "PreToolUse", "edit", map[string]any{"file_path": "PROJ/a.go", "oldString": "a", "newString": given}, true},
		{"opencode", "PreToolUse", "write", map[string]any{"file_path": "PROJ/doc.md", "content": given}, false},
	} {
		p := newProject(t)
		p.serve(answers{
			wire.MToolBegin: func(*wire.Request) (any, []byte, error) { return wire.ToolBeginAnswer{}, nil, nil },
			wire.MGiven: func(r *wire.Request) (any, []byte, error) {
				var q wire.GivenQuery
				if err := r.Decode(&q); err != nil {
					return nil, nil, err
				}
				for _, line := range q.Lines {
					if line == given && q.Reader.Session == "s1" {
						return wire.GivenAnswer{Line: line}, nil, nil
					}
				}
				return wire.GivenAnswer{}, nil, nil
			},
		})
		if err := os.WriteFile(p.root+"/doc.md", []byte(given+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		event, err := json.Marshal(map[string]any{"session_id": "s1", "cwd": "PROJ", "hook_event_name": c.event, "tool_name": c.tool, "tool_input": c.input, "tool_use_id": "t1"})
		if err != nil {
			t.Fatal(err)
		}
		want := `"permissionDecision":"deny"`
		if c.client != "" {
			p.args = []string{"--client=" + c.client}
		}
		if c.client == "gemini" {
			want = `{"decision":"deny","reason":"cachebro: not written`
		}
		r := p.run(string(event))
		if denied := strings.Contains(r.stdout, want) && strings.Contains(r.stdout, "cachebro's answer"); denied != c.denied {
			t.Errorf("%s %s %v: %s", c.client, c.tool, c.input, r.stdout)
		}
	}
}

// A hook reports the text with which it replaces an output, so that a file with this text can be
// refused later.
func TestFoldedOutputsAreTold(t *testing.T) {
	p := newProject(t)
	var mu sync.Mutex
	var told []string
	p.serve(answers{
		wire.MOutput: func(*wire.Request) (any, []byte, error) { return wire.Empty{}, nil, nil },
		wire.MGiven: func(r *wire.Request) (any, []byte, error) {
			var q wire.GivenQuery
			if err := r.Decode(&q); err != nil {
				return nil, nil, err
			}
			mu.Lock()
			defer mu.Unlock()
			told = append(told, q.Add...)
			return wire.GivenAnswer{}, nil, nil
		},
	})
	got := p.after("Bash", object{"command": "rg -n line src"}, bashResult(searchResult()))
	text, _ := got["stdout"].(string)
	mu.Lock()
	defer mu.Unlock()
	if len(told) != 1 || told[0] != "cachebro: lines are grouped by path" || !strings.HasPrefix(text, told[0]+"\n") {
		t.Errorf("told %q of %s", told, text)
	}
}
