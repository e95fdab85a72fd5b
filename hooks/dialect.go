package hooks

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// dialect translates what another client says into what Claude Code says. All of them
// report who did what. Only a client that shows what its requests to the model hold, by
// its plugin or in its record, has its own reads counted as shown and rewritten: of the
// others nobody knows what they cut or cleared.
type dialect struct {
	events map[string]string
	tools  map[string]string // other names are passed on
	// requests: PostToolBatch tells what the next request holds, after compactions and
	// all other changes; each event that was handled is acknowledged.
	requests bool
	// record: the transcript says the same.
	record bool
}

// dialects by the name that init registers with --client.
var dialects = map[string]dialect{
	"codex": {
		// Codex took over the names; its tool for edits has one of its own.
		tools:  map[string]string{"apply_patch": "Edit", "shell": "Bash", "local_shell": "Bash"},
		record: true,
	},
	"gemini": {
		events: map[string]string{
			"BeforeAgent": "UserPromptSubmit", "AfterAgent": "Stop", "BeforeTool": "PreToolUse", "AfterTool": "PostToolUse", "PreCompress": "PreCompact",
		},
		tools: map[string]string{"run_shell_command": "Bash", "replace": "Edit", "write_file": "Write"},
	},
	"qwen": {tools: map[string]string{"run_shell_command": "Bash", "edit": "Edit", "write_file": "Write"}},
	"cursor": {
		events: map[string]string{
			"sessionStart": "SessionStart", "beforeSubmitPrompt": "UserPromptSubmit", "beforeShellExecution": "PreToolUse",
			"afterShellExecution": "PostToolUse", "afterFileEdit": "PostToolUse", "preCompact": "PreCompact", "stop": "Stop", "sessionEnd": "SessionEnd",
		},
	},
	// Our own plugin speaks for it, in Claude Code's words.
	"opencode": {tools: map[string]string{"read": "Read", "bash": "Bash", "edit": "Edit", "write": "Write"}, requests: true},
}

// translate turns an event of another client into ours. f is what it sent.
func (d dialect) translate(client string, e event, f fields) event {
	e.said = e.name
	if name, ok := d.events[e.name]; ok {
		e.name = name
	}
	if e.session == "" {
		e.session = f.str("conversation_id")
	}
	for _, name := range []string{"turn_id", "generation_id"} {
		if e.prompt == "" {
			e.prompt = f.str(name)
		}
	}
	var roots []string
	if json.Unmarshal(f["workspace_roots"], &roots) == nil && len(roots) > 0 && e.cwd == "" {
		e.cwd = roots[0]
	}
	switch e.said {
	case "beforeShellExecution", "afterShellExecution":
		e.tool, e.input = "Bash", fields{"command": f["command"]}
	case "afterFileEdit":
		e.tool, e.input = "Edit", fields{"file_path": f["file_path"]}
	}
	if name, ok := d.tools[e.tool]; ok {
		e.tool = name
	}
	for i := range e.calls {
		if name, ok := d.tools[e.calls[i].tool]; ok {
			e.calls[i].tool = name
		}
	}
	if d.record && e.name == "PostToolUse" && e.tool == "Bash" {
		e.own, _ = unquote(f["tool_response"])
		if e.own != "" {
			e.response = fields{"stdout": f["tool_response"]}
		}
	}
	if d.requests {
		_ = json.Unmarshal(f["alive"], &e.alive)
		if e.name == "PostToolUse" {
			translateOpenCode(&e)
		}
	}
	if e.name == "UserPromptSubmit" && e.prompt == "" {
		e.prompt = digest(client, e.session, f.str("timestamp"), e.text)
	}
	if e.tool != "" && e.toolUse == "" {
		// Begin and end of one call must have one name; two calls of the same
		// command at the same time are taken for one.
		input, _ := json.Marshal(e.input) // raw messages of a message that was parsed
		e.toolUse = digest(client, e.session, e.prompt, e.tool, string(input))
	}
	return e
}

// digest makes an id out of what identifies a thing.
func digest(client string, parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return client + "-" + hex.EncodeToString(h.Sum(nil)[:8])
}
