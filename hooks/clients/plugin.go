package clients

import (
	"bytes"
	"encoding/json"
	"path/filepath"
)

// Claude Code can use us as a plugin (hooks/plugin) instead of through init. Then its
// hooks come with --plugin, and our tools have another name. With both, everything
// would happen twice, so the plugin steps back: who ran init chose its options.

// PluginTools is what our tools are called in the plugin: plugin, then server.
const PluginTools = "mcp__plugin_cachebro_cachebro__"

// Places are where a Claude Code of this user and project is configured.
type Places struct {
	Home    string
	Config  string // CLAUDE_CONFIG_DIR, "" for the usual place
	Project string
}

func (p Places) settings() []string {
	user := p.Config
	if user == "" {
		user = filepath.Join(p.Home, ".claude")
	}
	files := []string{filepath.Join(user, "settings.json")}
	if p.Project != "" {
		files = append(files, filepath.Join(p.Project, ".claude", "settings.json"), filepath.Join(p.Project, ".claude", "settings.local.json"))
	}
	return files
}

// HooksRegistered names the file in which init registered our hooks, "" if none: what a
// plugin's hook has to know before it acts.
func (p Places) HooksRegistered() string {
	for _, file := range p.settings() {
		b, err := ReadConfig(file)
		if err == nil && bytes.Contains(b, []byte("cachebro")) && bytes.Contains(b, []byte(" hook PostToolUse")) {
			return file
		}
	}
	return ""
}

// ServerRegistered names the file in which init registered our MCP server, "" if none.
func (p Places) ServerRegistered() string {
	type servers struct {
		Servers map[string]json.RawMessage `json:"mcpServers"`
	}
	user := filepath.Join(p.Home, ".claude.json")
	if p.Config != "" {
		user = filepath.Join(p.Config, ".claude.json")
	}
	var all struct {
		servers
		Projects map[string]servers `json:"projects"`
	}
	if b, err := ReadConfig(user); err == nil && json.Unmarshal(b, &all) == nil {
		if _, ok := all.Servers["cachebro"]; ok {
			return user
		}
		if _, ok := all.Projects[p.Project].Servers["cachebro"]; ok {
			return user
		}
	}
	var shared servers
	file := filepath.Join(p.Project, ".mcp.json")
	if b, err := ReadConfig(file); p.Project != "" && err == nil && json.Unmarshal(b, &shared) == nil {
		if _, ok := shared.Servers["cachebro"]; ok {
			return file
		}
	}
	return ""
}
