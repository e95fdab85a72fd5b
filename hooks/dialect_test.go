package hooks

import (
	"strings"
	"testing"

	"cachebro/store/wire"
)

// The daemon gets each client's events in our form, which says who did what.
func TestDialects(t *testing.T) {
	for _, c := range []struct {
		client, event, methods string
		session, prompt, tool  string
	}{
		{"codex", `{"hook_event_name":"PreToolUse","session_id":"c1","turn_id":"t9","cwd":"PROJ","tool_name":"Bash","tool_use_id":"u1","tool_input":{"command":"ls"}}`, "tool.begin", "c1", "t9", "Bash"},
		{"codex", `{"hook_event_name":"PostToolUse","session_id":"c1","turn_id":"t9","cwd":"PROJ","tool_name":"apply_patch","tool_use_id":"u2","tool_input":{"command":"*** Begin"},"tool_response":"ok"}`, "tool.end", "c1", "t9", "Edit"},
		{"gemini", `{"hook_event_name":"BeforeTool","session_id":"g1","cwd":"PROJ","timestamp":"x","tool_name":"run_shell_command","tool_input":{"command":"ls"}}`, "tool.begin", "g1", "", "Bash"},
		{"gemini", `{"hook_event_name":"AfterTool","session_id":"g1","cwd":"PROJ","timestamp":"y","tool_name":"run_shell_command","tool_input":{"command":"ls"},"tool_response":{"llmContent":"a"}}`, "tool.end", "g1", "", "Bash"},
		{"gemini", `{"hook_event_name":"AfterTool","session_id":"g1","cwd":"PROJ","tool_name":"replace","tool_input":{"file_path":"PROJ/a.go"}}`, "tool.end", "g1", "", "Edit"},
		{"qwen", `{"hook_event_name":"PreToolUse","session_id":"q1","prompt_id":"q1########0","cwd":"PROJ","timestamp":"x","tool_name":"run_shell_command","tool_use_id":"u1","tool_input":{"command":"ls"}}`, "tool.begin", "q1", "q1########0", "Bash"},
		{"qwen", `{"hook_event_name":"PostToolUse","session_id":"q1","prompt_id":"q1########0","cwd":"PROJ","tool_name":"write_file","tool_use_id":"u2","tool_input":{"file_path":"PROJ/a.go"}}`, "tool.end", "q1", "q1########0", "Write"},
		{"cursor", `{"hook_event_name":"beforeShellExecution","conversation_id":"k1","generation_id":"n3","workspace_roots":["PROJ"],"command":"make","cwd":""}`, "tool.begin", "k1", "n3", "Bash"},
		{"cursor", `{"hook_event_name":"afterFileEdit","conversation_id":"k1","generation_id":"n3","workspace_roots":["PROJ"],"file_path":"PROJ/a.go","edits":[]}`, "tool.end", "k1", "n3", "Edit"},
	} {
		p := newProject(t)
		delete(p.envs, "CLAUDE_PROJECT_DIR")
		p.args = []string{"--client=" + c.client}
		p.serve(nil)
		silent(t, p.run(c.event))
		if got := p.methods(); got != c.methods {
			t.Errorf("%s: asked %q, want %q", c.event, got, c.methods)
			continue
		}
		var call wire.ToolCall
		p.asked(c.methods, &call)
		if call.Session != c.session || call.Prompt != c.prompt || call.Tool != c.tool || call.ToolUse == "" {
			t.Errorf("%s: %+v", c.event, call)
		}
	}
}

// A client may give a call no id. The hooks then derive one, which is the same at the beginning and
// at the end of the call, and different for another command.
func TestDialectCallIDs(t *testing.T) {
	id := func(event string) string {
		e, ok := parseEvent([]byte(event), options{client: "gemini"})
		if !ok {
			t.Fatal(event)
		}
		return e.toolUse
	}
	begin := id(`{"hook_event_name":"BeforeTool","session_id":"g","tool_name":"run_shell_command","tool_input":{"command":"ls"}}`)
	end := id(`{"hook_event_name":"AfterTool","session_id":"g","tool_name":"run_shell_command","tool_input":{"command":"ls"},"tool_response":{}}`)
	other := id(`{"hook_event_name":"BeforeTool","session_id":"g","tool_name":"run_shell_command","tool_input":{"command":"pwd"}}`)
	if begin == "" || begin != end || begin == other {
		t.Errorf("begin %q, end %q, other %q", begin, end, other)
	}
}

// Lines for the user are printed under the client's own event name. Cursor, which takes no text,
// gets none. Only Claude Code ever gets status 2.
func TestDialectOutput(t *testing.T) {
	metrics := answers{
		wire.MMetrics: func(*wire.Request) (any, []byte, error) {
			return wire.Metrics{Saved: 4230, Cached: 3, Tools: []wire.ToolMetric{{Tool: "read", Calls: 1, Saved: 4230}}}, nil, nil
		},
		wire.MWorkingSet: func(*wire.Request) (any, []byte, error) {
			return wire.WorkingSet{Files: []wire.WorkingFile{{Path: []byte("src/cache.go"), Edits: 1}}}, nil, nil
		},
	}
	for _, c := range []struct{ client, args, event, want string }{
		{"gemini", "", `{"hook_event_name":"AfterAgent","session_id":"g","cwd":"PROJ","prompt":"x","prompt_response":"y"}`, `{"systemMessage":" cachebro  ~4,230 tokens saved`},
		{"gemini", "--prompt-index", `{"hook_event_name":"BeforeAgent","session_id":"g","cwd":"PROJ","prompt":"mend the cache"}`, `{"hookSpecificOutput":{"hookEventName":"BeforeAgent","additionalContext":"--- cachebro context`},
		{"gemini", "", `{"hook_event_name":"SessionEnd","session_id":"g","cwd":"PROJ","reason":"exit"}`, ""},
		{"codex", "", `{"hook_event_name":"Stop","session_id":"g","cwd":"PROJ"}`, `{"systemMessage":" cachebro  ~4,230 tokens saved`},
		{"cursor", "", `{"hook_event_name":"stop","conversation_id":"g","workspace_roots":["PROJ"],"status":"completed"}`, ""},
	} {
		p := newProject(t)
		delete(p.envs, "CLAUDE_PROJECT_DIR")
		p.args = []string{"--client=" + c.client, c.args}
		p.serve(metrics)
		r := p.run(c.event)
		if !strings.HasPrefix(r.stdout, c.want) || c.want == "" && r.stdout != "" {
			t.Errorf("%s: stdout %q; want %q", c.event, r.stdout, c.want)
		}
	}
}

// If a result has several blocks, the model reads each on lines of its own. So our sentence and the
// note after it are two lines.
func TestCodexResultOfSeveralBlocks(t *testing.T) {
	p := newProject(t)
	p.args = []string{"--client=codex"}
	p.serve(nil)
	silent(t, p.run(`{"hook_event_name":"PostToolUse","session_id":"c1","turn_id":"t9","cwd":"PROJ","tool_name":"mcp__cachebro__read_file","tool_use_id":"u1","tool_input":{"path":"a"},`+
		`"tool_response":{"content":[{"type":"text","text":"[unchanged · lines 1-9 of 20]"},{"type":"text","text":"[... lines 1-9 of 20. next]"}]}}`))
	var q wire.Commit
	if p.asked(wire.MCommit, &q); len(q.Calls) != 1 || q.Calls[0].Text != "[unchanged · lines 1-9 of 20]\n[... lines 1-9 of 20. next]" {
		t.Errorf("%+v", q)
	}
}
