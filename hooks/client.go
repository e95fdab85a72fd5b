package hooks

import (
	"cmp"
	"encoding/json"
	"os"
	"strconv"
	"strings"

	"cachebro/hooks/clients"
	"cachebro/store/leaf/procfs"
	"cachebro/store/leaf/text"
)

// clientPID returns the pid of the client that runs the hooks. Clients start hooks through a shell,
// so the client is our nearest ancestor that is not a shell.
func clientPID() int {
	pid := os.Getppid()
	for range 5 {
		st, err := procfs.ReadStat(pid)
		if err != nil {
			return 0
		}
		switch st.Comm {
		case "sh", "bash", "dash", "zsh", "ash", "busybox", "env", "timeout":
			pid = st.Parent
			continue
		}
		return pid
	}
	return 0
}

// clientName turns AI_AGENT ("claude-code_2-1-197_harness") into "claude-code/2.1.197", or
// "claude-code" if it has another form.
func clientName(agent string) string {
	name, v, ok := clientVersion(agent)
	if !ok {
		return "claude-code"
	}
	parts := make([]string, len(v))
	for i, n := range v {
		parts[i] = strconv.Itoa(n)
	}
	return name + "/" + strings.Join(parts, ".")
}

func clientVersion(agent string) (name string, v []int, ok bool) {
	f := strings.Split(agent, "_")
	if len(f) < 2 {
		return "", nil, false
	}
	for _, p := range strings.Split(f[1], "-") {
		n, err := strconv.Atoi(p)
		if err != nil || n < 0 {
			return "", nil, false
		}
		v = append(v, n)
	}
	return f[0], v, true
}

func (o options) dialect() clients.Dialect {
	d, _ := clients.DialectOf(o.client)
	return d
}

// translate gives another client's event the form of Claude Code's events. f is the event as the
// client sent it.
func translate(d clients.Dialect, client string, e event, f fields) event {
	e.clientName = e.name
	if name, ok := d.Events[e.name]; ok {
		e.name = name
	}
	e.session = cmp.Or(e.session, f.str("conversation_id"))
	e.prompt = cmp.Or(e.prompt, f.str("turn_id"), f.str("generation_id"))
	var roots []string
	if json.Unmarshal(f["workspace_roots"], &roots) == nil && len(roots) > 0 && e.cwd == "" {
		e.cwd = roots[0]
	}
	switch e.clientName {
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
	return client + "-" + text.Hash([]byte(strings.Join(parts, "\x00") + "\x00"))[:16]
}
