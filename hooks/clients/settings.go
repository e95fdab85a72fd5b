package clients

import (
	"bytes"
	"strings"

	"cachebro/store/leaf/text"
)

// registration is one entry of the client's "hooks" settings.
type registration struct {
	event   string
	matcher string // "" if the event has none
	timeout int    // in the client's unit, for Claude Code seconds; the hooks themselves give up much earlier
}

// registrations are exactly the events that our hooks handle, because each event costs a process.
// PreToolUse also matches our own MCP tools, because only the hook knows which reader (session and
// agent) a tool_use_id belongs to.
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

// worktreeEvents are registered on request. The client then makes no git worktree but uses the
// directory that the command prints. The timeouts are long because large dependencies may be
// copied.
var worktreeEvents = []registration{{"WorktreeCreate", "", 600}, {"WorktreeRemove", "", 120}}

type hookCommand struct {
	Type    string `json:"type"`
	Command string `json:"command"`
	Timeout int    `json:"timeout"`
}

type hookGroup struct {
	Matcher string        `json:"matcher,omitempty"`
	Hooks   []hookCommand `json:"hooks,omitempty"`
	Command string        `json:"command,omitempty"` // instead of Hooks, see claudeHooks.flat
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

// hookLine returns the registered shell command. If the binary is gone, it does nothing. Its exit
// status is always 0, because status 2 would block the tool call, and a Go panic exits with 2.
func hookLine(exe, event string, options []string) string {
	words := []string{ShellQuote(exe), "hook", event}
	switch event { // after an error of these events, the client must see that the hook failed
	case "WorktreeCreate":
		return strings.Join(words, " ")
	case "WorktreeRemove": // it runs in the worktree, and a mount in use cannot be unmounted
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

// ShellQuote quotes a word for a POSIX shell if necessary.
func ShellQuote(s string) string {
	plain := s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !text.IsWord(r) && !strings.ContainsRune("/.-=+:,@%", r)
	}) < 0
	if plain {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// ClaudeSettings returns the JSON with our hooks for Claude Code's --settings. exe is an absolute
// path or a name in PATH. options are flags of "cachebro hook" (--no-rewrite, --stop-line=off, …).
func ClaudeSettings(exe string, options ...string) []byte {
	return encode(map[string]any{"hooks": groups(registrations, exe, options)})
}

// ClaudeMCP returns the JSON with our server for Claude Code's --mcp-config. args default to serve
// --tools=safety, because the hooks handle the client's own tools.
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

// encode returns v as JSON. It cannot fail for strings, numbers and maps of them.
func encode(v any) []byte {
	b, _ := text.JSONLine(v)
	return bytes.TrimSpace(b)
}
