package clients

import (
	"cmp"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Setup says where init and uninit work and what they register. cmd sets the directories, because
// this package does not read the environment.
type Setup struct {
	Home         string // $HOME
	ConfigHome   string // $XDG_CONFIG_HOME; "" means Home/.config
	ClaudeConfig string // $CLAUDE_CONFIG_DIR; "" for the usual places
	CodexHome    string // $CODEX_HOME; "" means Home/.codex
	Backups      string // directory for the original contents of files; made when needed
	Project      string // if set, write the project's own files here instead of the user's
	AgentsMD     string // if set, also write a section in this AGENTS.md
	Git          GitSetup
	Exe          string // the program that clients start: an absolute path, or a name in PATH
	HookOptions  []string
	StatusLine   bool   // Claude Code: also set statusLine if it is not set
	Worktrees    bool   // Claude Code: make forks instead of git worktrees
	OS           string // runtime.GOOS, for tests
	HasProgram   func(name string) bool
	PathExists   func(path string) bool
}

func (s Setup) config() string {
	return cmp.Or(s.ConfigHome, filepath.Join(s.Home, ".config"))
}

// file is a configuration file of a client and the editor for our entries in it.
type file struct {
	path string
	edit editor
}

// editor adds and removes our entries in the bytes of a file.
type editor interface {
	// Add returns the file with our entries, or the same bytes if they are there.
	Add(before []byte) ([]byte, error)
	// Remove returns the file without our entries. original is its content before init, or nil if
	// it did not exist or is unknown.
	Remove(now, original []byte) ([]byte, error)
}

// both makes two edits in one file.
type both struct{ first, second editor }

func (b both) Add(before []byte) ([]byte, error) {
	mid, err := b.first.Add(before)
	if err != nil {
		return nil, err
	}
	return b.second.Add(mid)
}

// Remove undoes the second edit first, so that the containers that Add made become empty.
func (b both) Remove(now, original []byte) ([]byte, error) {
	mid, err := b.second.Remove(now, original)
	if err != nil {
		return nil, err
	}
	return b.first.Remove(mid, original)
}

// asRegistered returns b with both edits replaced by the results of their own methods asRegistered;
// see standing.
func (b both) asRegistered(before []byte) editor {
	for _, e := range []*editor{&b.first, &b.second} {
		if a, ok := (*e).(interface{ asRegistered([]byte) editor }); ok {
			*e = a.asRegistered(before)
		}
	}
	return b
}

// clientSpec is an agent, or an editor with one, that init knows.
type clientSpec struct {
	name, title string
	programs    []string             // the client is in use if PATH has one of these
	editor      bool                 // the client is an editor
	marks       func(Setup) []string // the client is also in use if one of these paths exists
	files       func(Setup) []file
	// pluginHooks is the file, relative to a home or project, in which init registers hooks. It is
	// set only for clients that can also use our plugin.
	pluginHooks string
	dialect     *Dialect // translates its hook events; nil if they are Claude Code's or it has no hooks
	takesNoText bool     // its model never gets what a hook prints
	note        string   // what a user must do in the client
}

// Dialect translates another client's hook events to Claude Code's. The events of every client say
// who did what. Results of the client's own read tools count as shown, and are rewritten, only if
// Requests or Record is set. Without these, the client may have shortened or removed results before
// the model got them.
type Dialect struct {
	Events map[string]string
	Tools  map[string]string // other names are not translated
	// Requests means that PostToolBatch contains the same results as the next request to the model,
	// after all changes. Each handled event is acknowledged.
	Requests bool
	// Record means that the transcript contains the same results as the requests.
	Record bool
}

// DialectOf returns the Dialect of a client, by the name that init registers with --client.
func DialectOf(client string) (Dialect, bool) {
	if c, err := clientNamed(client); err == nil && c.dialect != nil {
		return *c.dialect, true
	}
	return Dialect{}, false
}

// TakesNoText reports whether this client's model never gets what a hook prints.
func TakesNoText(client string) bool {
	c, err := clientNamed(client)
	return err == nil && c.takesNoText
}

// IsAgent reports whether a program is an agent or, if editors is true, an editor with one.
func IsAgent(program string, editors bool) bool {
	return slices.Contains(otherAgents, program) || slices.ContainsFunc(clientSpecs, func(c clientSpec) bool {
		return (editors || !c.editor) && slices.Contains(c.programs, program)
	})
}

func clientNamed(name string) (clientSpec, error) {
	for _, c := range clientSpecs {
		if c.name == name {
			return c, nil
		}
	}
	return clientSpec{}, fmt.Errorf("unknown client %q; known are %v", name, Clients())
}

// inUse reports whether a client seems to be in use.
func (c clientSpec) inUse(s Setup) bool {
	return s.HasProgram != nil && slices.ContainsFunc(c.programs, s.HasProgram) || s.PathExists != nil && slices.ContainsFunc(c.marks(s), s.PathExists)
}

// Clients lists the names of the clients that init knows.
func Clients() []string {
	var names []string
	for _, c := range clientSpecs {
		names = append(names, c.name)
	}
	return names
}

// FoundClients lists the clients that seem to be in use.
func FoundClients(s Setup) []string {
	var names []string
	for _, c := range clientSpecs {
		if c.inUse(s) {
			names = append(names, c.name)
		}
	}
	return names
}

// TerminalPrograms lists the installed programs of agents that run in a terminal.
func TerminalPrograms(s Setup) (all []string) {
	for _, c := range clientSpecs {
		if !c.editor {
			all = append(all, c.programs...)
		}
	}
	return slices.DeleteFunc(append(all, otherAgents...), func(p string) bool { return s.HasProgram == nil || !s.HasProgram(p) })
}

// serve returns the arguments with which a client starts our MCP server. hooked means that hooks
// handle the client's own tools, so that only the safety tools are needed.
func (s Setup) serve(hooked bool) []string {
	if hooked {
		return []string{"serve", "--tools=safety"}
	}
	return []string{"serve"}
}

// otherAgents are programs of agents that init does not know.
var otherAgents = []string{"copilot", "aider", "goose", "amp", "crush"}

// clientSpecs is the table of the agents that init knows.
var clientSpecs = []clientSpec{
	{
		name: "claude", title: "Claude Code", programs: []string{"claude"},
		marks: func(s Setup) []string {
			return []string{filepath.Join(s.Home, ".claude.json"), filepath.Join(s.Home, ".claude"), s.ClaudeConfig}
		},
		files: claudeFiles,
	},
	{
		name: "cursor", title: "Cursor", programs: []string{"cursor", "cursor-agent"},
		takesNoText: true,
		dialect: &Dialect{Events: map[string]string{
			"sessionStart": "SessionStart", "beforeSubmitPrompt": "UserPromptSubmit", "beforeShellExecution": "PreToolUse",
			"afterShellExecution": "PostToolUse", "afterFileEdit": "PostToolUse", "preCompact": "PreCompact", "stop": "Stop", "sessionEnd": "SessionEnd",
		}},
		marks: func(s Setup) []string { return []string{filepath.Join(s.Home, ".cursor")} },
		files: func(s Setup) []file {
			return []file{
				{place(s, s.Home, ".cursor/mcp.json"), jsonEntry{[]string{"mcpServers", "cachebro"}, plainServer(s)}},
				{place(s, s.Home, ".cursor/hooks.json"), claudeHooks{exe: s.Exe, options: []string{"--client=cursor"}, regs: cursorEvents, flat: true}},
			}
		},
	},
	{
		name: "opencode", title: "OpenCode", programs: []string{"opencode"},
		takesNoText: true,
		// Our plugin for OpenCode sends Claude Code's events.
		dialect: &Dialect{Tools: map[string]string{"read": "Read", "bash": "Bash", "edit": "Edit", "write": "Write"}, Requests: true},
		marks:   func(s Setup) []string { return []string{filepath.Join(s.config(), "opencode")} },
		files: func(s Setup) []file {
			dir, names := filepath.Join(s.config(), "opencode"), []string{"opencode.jsonc", "opencode.json"}
			if s.Project != "" {
				dir = s.Project
			}
			path := filepath.Join(dir, names[1])
			if s.PathExists != nil && s.PathExists(filepath.Join(dir, names[0])) {
				path = filepath.Join(dir, names[0])
			}
			entry := struct {
				Type    string   `json:"type"`
				Command []string `json:"command"`
				Enabled bool     `json:"enabled"`
			}{"local", append([]string{s.Exe}, s.serve(false)...), true}
			return []file{{path, jsonEntry{[]string{"mcp", "cachebro"}, entry}}}
		},
	},
	{
		name: "gemini", title: "Gemini CLI", programs: []string{"gemini"}, pluginHooks: ".gemini/settings.json",
		dialect: &Dialect{
			Events: map[string]string{
				"BeforeAgent": "UserPromptSubmit", "AfterAgent": "Stop", "BeforeTool": "PreToolUse", "AfterTool": "PostToolUse", "PreCompress": "PreCompact",
			},
			Tools: map[string]string{"run_shell_command": "Bash", "replace": "Edit", "write_file": "Write"},
		},
		marks: func(s Setup) []string { return []string{filepath.Join(s.Home, ".gemini")} },
		files: func(s Setup) []file {
			return []file{{place(s, s.Home, ".gemini/settings.json"), both{
				jsonEntry{[]string{"mcpServers", "cachebro"}, plainServer(s)},
				claudeHooks{exe: s.Exe, options: s.foreign("gemini"), regs: geminiEvents},
			}}}
		},
		// Gemini CLI shows the server of an untrusted folder as "Disabled".
		note: "Gemini CLI runs servers and hooks only in folders it trusts: say yes when it asks, or use its /permissions",
	},
	{
		name: "qwen", title: "Qwen Code", programs: []string{"qwen"},
		dialect: &Dialect{Tools: map[string]string{"run_shell_command": "Bash", "edit": "Edit", "write_file": "Write"}},
		marks:   func(s Setup) []string { return []string{filepath.Join(s.Home, ".qwen")} },
		files: func(s Setup) []file {
			return []file{{place(s, s.Home, ".qwen/settings.json"), both{
				jsonEntry{[]string{"mcpServers", "cachebro"}, plainServer(s)},
				claudeHooks{exe: s.Exe, options: s.foreign("qwen"), regs: qwenEvents},
			}}}
		},
	},
	{
		name: "codex", title: "Codex", programs: []string{"codex"}, pluginHooks: ".codex/hooks.json",
		// Codex uses Claude Code's names of events, but its own names of tools.
		dialect: &Dialect{Tools: map[string]string{"apply_patch": "Edit", "shell": "Bash", "local_shell": "Bash"}, Record: true},
		marks:   func(s Setup) []string { return []string{codexHome(s)} },
		files: func(s Setup) []file {
			path := filepath.Join(codexHome(s), "config.toml")
			if s.Project != "" {
				path = filepath.Join(s.Project, ".codex", "config.toml")
			}
			return []file{
				{path, tomlTable{Path: []string{"mcp_servers", "cachebro"}, Command: s.Exe, Args: s.serve(false), Vars: placeVars}},
				{filepath.Join(filepath.Dir(path), "hooks.json"), claudeHooks{exe: s.Exe, options: s.foreign("codex"), regs: codexEvents}},
			}
		},
		// Codex 0.169 silently does not run hooks that were not reviewed.
		note: "Codex runs hooks only after a review: open /hooks in it once; until then, reads return full texts and sessions have no names. To let cachebro log and undo run outside its sandbox, add a rule to rules/cachebro.rules (guide: sandboxes)",
	},
	{
		name: "vscode", title: "VS Code", programs: []string{"code", "code-server"}, editor: true,
		marks: func(s Setup) []string { return []string{filepath.Dir(vscodeFile(s))} },
		files: func(s Setup) []file {
			path := vscodeFile(s)
			if s.Project != "" {
				path = filepath.Join(s.Project, ".vscode", "mcp.json")
			}
			return []file{{path, jsonEntry{[]string{"servers", "cachebro"}, serverEntry(s.Exe, s.serve(false))}}}
		},
	},
	{
		name: "windsurf", title: "Windsurf", programs: []string{"windsurf"}, editor: true,
		marks: func(s Setup) []string { return []string{filepath.Join(s.Home, ".codeium", "windsurf")} },
		files: func(s Setup) []file {
			if s.Project != "" {
				return nil // Windsurf has no configuration for single projects
			}
			return []file{{filepath.Join(s.Home, ".codeium", "windsurf", "mcp_config.json"), jsonEntry{[]string{"mcpServers", "cachebro"}, plainServer(s)}}}
		},
	},
	{
		name: "zed", title: "Zed", programs: []string{"zed", "zeditor"}, editor: true,
		marks: func(s Setup) []string { return []string{filepath.Join(s.config(), "zed")} },
		files: func(s Setup) []file {
			path := filepath.Join(s.config(), "zed", "settings.json")
			if s.Project != "" {
				path = filepath.Join(s.Project, ".zed", "settings.json")
			}
			return []file{{path, jsonEntry{[]string{"context_servers", "cachebro"}, plainServer(s)}}}
		},
	},
}

// placeVars are the environment variables that say where sockets and state are. Codex passes few
// variables to servers. Without these, a server would not find the daemon and would start another.
var placeVars = []string{"XDG_STATE_HOME", "XDG_RUNTIME_DIR", "CACHEBRO_DIR"}

// foreign returns the hook's options for a client other than Claude Code. It leaves out options that
// the client does not support.
func (s Setup) foreign(client string) []string {
	out := []string{"--client=" + client}
	for _, o := range s.HookOptions {
		if strings.HasPrefix(o, "--stop-line=") || o == "--prompt-index" {
			out = append(out, o)
		}
	}
	return out
}

// place returns the path of a file in the project if one is set, otherwise in the user's directory.
func place(s Setup, user, name string) string {
	return filepath.Join(cmp.Or(s.Project, user), filepath.FromSlash(name))
}

func plainServer(s Setup) server { return server{Command: s.Exe, Args: s.serve(false)} }

func codexHome(s Setup) string {
	return cmp.Or(s.CodexHome, filepath.Join(s.Home, ".codex"))
}

func vscodeFile(s Setup) string {
	if cmp.Or(s.OS, runtime.GOOS) == "darwin" {
		return filepath.Join(s.Home, "Library", "Application Support", "Code", "User", "mcp.json")
	}
	return filepath.Join(s.config(), "Code", "User", "mcp.json")
}

// claudeFiles returns Claude Code's files. The server is registered in ~/.claude.json or .mcp.json,
// the hooks in settings.json. A project's settings.json is meant to be committed.
func claudeFiles(s Setup) []file {
	servers, settings := filepath.Join(s.Home, ".claude.json"), filepath.Join(s.Home, ".claude", "settings.json")
	if s.ClaudeConfig != "" {
		servers, settings = filepath.Join(s.ClaudeConfig, ".claude.json"), filepath.Join(s.ClaudeConfig, "settings.json")
	}
	if s.Project != "" {
		servers, settings = filepath.Join(s.Project, ".mcp.json"), filepath.Join(s.Project, ".claude", "settings.json")
	}
	return []file{
		{servers, jsonEntry{[]string{"mcpServers", "cachebro"}, serverEntry(s.Exe, s.serve(true))}},
		{settings, claudeHooks{exe: s.Exe, options: s.HookOptions, statusLine: s.StatusLine, worktrees: s.Worktrees}},
	}
}

// The registrations of the other clients, whose timeouts have different units.
var (
	codexEvents = []registration{
		{"SessionStart", "", 15}, {"UserPromptSubmit", "", 5}, {"PreToolUse", "Bash|apply_patch|mcp__cachebro__.*", 5}, {"PostToolUse", "Bash|apply_patch|mcp__cachebro__.*", 5},
		{"PreCompact", "", 5}, {"PostCompact", "", 5}, {"Stop", "", 5},
	}
	geminiEvents = []registration{ // milliseconds
		{"SessionStart", "", 15000}, {"BeforeAgent", "", 5000}, {"BeforeTool", "run_shell_command|replace|write_file", 5000},
		{"AfterTool", "run_shell_command|replace|write_file", 5000}, {"PreCompress", "", 5000}, {"AfterAgent", "", 5000}, {"SessionEnd", "", 5000},
	}
	qwenEvents = []registration{ // seconds; the names of events are Claude Code's
		{"SessionStart", "", 15}, {"UserPromptSubmit", "", 5}, {"PreToolUse", "run_shell_command|edit|write_file", 5},
		{"PostToolUse", "run_shell_command|edit|write_file", 5}, {"PostToolUseFailure", "run_shell_command|edit|write_file", 5},
		{"PreCompact", "", 5}, {"Stop", "", 5}, {"SubagentStart", "", 5}, {"SubagentStop", "", 5}, {"SessionEnd", "", 5},
	}
	cursorEvents = []registration{{event: "sessionStart"}, {event: "beforeSubmitPrompt"}, {event: "beforeShellExecution"}, {event: "afterShellExecution"}, {event: "afterFileEdit"}, {event: "preCompact"}, {event: "stop"}, {event: "sessionEnd"}}
)
