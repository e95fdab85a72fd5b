package clients

import (
	"bytes"
	"encoding/json"
	"strings"
)

// registration is one entry of the client's "hooks" settings.
type registration struct {
	event   string
	matcher string // "" for events without one
	timeout int    // seconds; the hooks themselves give up much earlier
}

// registrations are all events that we act on, and no other: each costs a
// process. Our own MCP tools are matched before the call because only the hook
// knows which reader (session and agent) a tool_use_id belongs to.
var registrations = []registration{
	{"SessionStart", "", 15},
	{"UserPromptSubmit", "", 5},
	{"PreToolUse", "Edit|Write|NotebookEdit|Bash|mcp__cachebro__.*", 5},
	{"PostToolUse", "Read|Bash|Edit|Write|Grep|Glob|LS", 5},
	{"PostToolUseFailure", "Bash|Edit|Write|NotebookEdit", 5},
	{"PostToolBatch", "", 5},
	{"PreCompact", "", 5},
	{"PostCompact", "", 5},
	{"SubagentStart", "", 5},
	{"SubagentStop", "", 5},
	{"Stop", "", 5},
	{"SessionEnd", "", 5},
}

// worktreeEvents are registered on request. With them the client makes no git worktree
// itself, and takes what the command prints. A copy of large dependencies takes its time.
var worktreeEvents = []registration{{"WorktreeCreate", "", 600}, {"WorktreeRemove", "", 120}}

type hookCommand struct {
	Type    string `json:"type"`
	Command string `json:"command"`
	Timeout int    `json:"timeout"`
}

type hookGroup struct {
	Matcher string        `json:"matcher,omitempty"`
	Hooks   []hookCommand `json:"hooks"`
}

// hookSettings is the value of "hooks" in the client's settings.
func hookSettings(exe string, options []string) map[string][]hookGroup {
	return groups(registrations, exe, options)
}

func groups(regs []registration, exe string, options []string) map[string][]hookGroup {
	m := map[string][]hookGroup{}
	for _, r := range regs {
		m[r.event] = append(m[r.event], hookGroup{
			Matcher: r.matcher,
			Hooks:   []hookCommand{{Type: "command", Command: hookLine(exe, r.event, options), Timeout: r.timeout}},
		})
	}
	return m
}

// hookLine is the registered shell command. It costs nothing and prints nothing when
// the binary is gone, and it ends with status 0 whatever the binary does: 2 would
// block the tool call, and 2 is also the status of a Go panic.
func hookLine(exe, event string, options []string) string {
	words := []string{ShellQuote(exe), "hook", event}
	switch event { // the client has to hear of a failure
	case "WorktreeCreate":
		return strings.Join(words, " ")
	case "WorktreeRemove": // it runs there, and who stands in a mount keeps it
		return "cd / && " + strings.Join(words, " ")
	}
	for _, o := range options {
		words = append(words, ShellQuote(o))
	}
	command := strings.Join(words, " ")
	test := "[ -x " + ShellQuote(exe) + " ]"
	if !strings.Contains(exe, "/") {
		test = "command -v " + ShellQuote(exe) + " >/dev/null 2>&1"
	}
	return test + " && " + command + "; exit 0"
}

// ShellQuote is a word for a POSIX shell; plain words stay as they are.
func ShellQuote(s string) string {
	plain := s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-=+:,@%", r))
	}) < 0
	if plain {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// ClaudeSettings is the JSON for Claude Code's --settings: our hooks. exe is an
// absolute path, or a name to be found in PATH; options are those of
// "cachebro hook" (--no-rewrite, --stop-line=off, …).
func ClaudeSettings(exe string, options ...string) []byte {
	return encode(map[string]any{"hooks": hookSettings(exe, options)})
}

// ClaudeMCP is the JSON for Claude Code's --mcp-config: our server, started as
// exe with args (none: serve --tools=safety, since the hooks already cover the
// client's own tools).
func ClaudeMCP(exe string, args ...string) []byte {
	return encode(map[string]any{"mcpServers": map[string]any{"cachebro": serverEntry(exe, args)}})
}

type server struct {
	Type    string   `json:"type,omitempty"`
	Command string   `json:"command"`
	Args    []string `json:"args"`
}

func serverEntry(exe string, args []string) server {
	if len(args) == 0 {
		args = []string{"serve", "--tools=safety"}
	}
	return server{Type: "stdio", Command: exe, Args: args}
}

// encode cannot fail: only strings, numbers and maps of them go in.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil
	}
	return bytes.TrimSpace(b.Bytes())
}
