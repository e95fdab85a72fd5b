package hooks

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"cachebro/hooks/clients"
)

func (o options) dialect() clients.Dialect {
	d, _ := clients.DialectOf(o.client)
	return d
}

// translate turns another client's event into the form of Claude Code's. f is the event as the
// client sent it.
func translate(d clients.Dialect, client string, e event, f fields) event {
	e.said = e.name
	if name, ok := d.Events[e.name]; ok {
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
	if name, ok := d.Tools[e.tool]; ok {
		e.tool = name
	}
	for i := range e.calls {
		if name, ok := d.Tools[e.calls[i].tool]; ok {
			e.calls[i].tool = name
		}
	}
	if d.Record && e.name == "PostToolUse" && e.tool == "Bash" {
		e.own, _ = unquote(f["tool_response"])
		if e.own != "" {
			e.response = fields{"stdout": f["tool_response"]}
		}
	}
	if d.Requests {
		_ = json.Unmarshal(f["alive"], &e.alive)
		if e.name == "PostToolUse" {
			translateOpenCode(&e)
		}
	}
	if e.name == "UserPromptSubmit" && e.prompt == "" {
		e.prompt = digest(client, e.session, f.str("timestamp"), e.text)
	}
	if e.tool != "" && e.toolUse == "" {
		// The events at the start and end of a call must have the same id. Two simultaneous calls
		// of one command share an id and count as one call.
		input, _ := json.Marshal(e.input) // cannot fail: these were parsed
		e.toolUse = digest(client, e.session, e.prompt, e.tool, string(input))
	}
	return e
}

// digest makes an id out of identifying parts.
func digest(client string, parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return client + "-" + hex.EncodeToString(h.Sum(nil)[:8])
}
