package clients

import (
	"bytes"
	"cmp"
	"encoding/json"
	"path/filepath"
)

// Instead of running init, users can install cachebro as a plugin: hooks/plugin for Claude Code and
// Codex, hooks/gemini for Gemini CLI, hooks/opencode for OpenCode. The plugin's hooks have the
// option --plugin. They do nothing if init registered hooks too, because the user chose the options
// of init's hooks.
//
// If both register a server, Codex, Gemini CLI and OpenCode start only the one that init
// registered. Claude Code starts both and gives the plugin's tools another name.

// PluginTools is the prefix of our tools' names in the plugin: the names of the plugin and the
// server.
const PluginTools = "mcp__plugin_cachebro_cachebro__"

// Places says where a client's configuration is, for this user and project.
type Places struct {
	Client  string // "codex" or "gemini"; "" means Claude Code
	Home    string
	Config  string // CLAUDE_CONFIG_DIR or CODEX_HOME; "" for the usual place
	Project string
}

// settings lists the files in which init registers hooks.
func (p Places) settings() []string {
	if p.Client != "" {
		c, err := clientNamed(p.Client)
		name := c.pluginHooks
		if err != nil || name == "" {
			return nil
		}
		user := filepath.Join(p.Home, filepath.FromSlash(filepath.Dir(name)))
		files := []string{filepath.Join(cmp.Or(p.Config, user), filepath.Base(name))}
		if p.Project != "" {
			files = append(files, filepath.Join(p.Project, filepath.FromSlash(name)))
		}
		return files
	}
	files := []string{filepath.Join(cmp.Or(p.Config, filepath.Join(p.Home, ".claude")), "settings.json")}
	if p.Project != "" {
		files = append(files, filepath.Join(p.Project, ".claude", "settings.json"), filepath.Join(p.Project, ".claude", "settings.local.json"))
	}
	return files
}

// HooksRegistered returns the file in which init registered our hooks, or "".
func (p Places) HooksRegistered() string {
	for _, file := range p.settings() {
		b, err := ReadConfig(file)
		// init registers SessionStart for all these clients.
		if err == nil && bytes.Contains(b, []byte("cachebro")) && bytes.Contains(b, []byte(" hook SessionStart")) {
			return file
		}
	}
	return ""
}

// ServerRegistered returns the file in which init registered our MCP server for Claude Code, or "".
func (p Places) ServerRegistered() string {
	type servers struct {
		Servers map[string]json.RawMessage `json:"mcpServers"`
	}
	user := filepath.Join(cmp.Or(p.Config, p.Home), ".claude.json")
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
