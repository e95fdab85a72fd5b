package clients

import (
	"bytes"
	"encoding/json"
	"path/filepath"
)

// Clients can use us as a plugin instead of through init: Claude Code and Codex take
// hooks/plugin, Gemini CLI hooks/gemini, OpenCode hooks/opencode. The plugin's hooks come
// with --plugin. With both, everything would happen twice, so the plugin steps back: who
// ran init chose its options. Of two servers with one name Codex, Gemini CLI and OpenCode
// start init's; Claude Code starts both and gives the plugin's tools another name.

// PluginTools is what our tools are called in the plugin: plugin, then server.
const PluginTools = "mcp__plugin_cachebro_cachebro__"

// Places are where a client of this user and project is configured.
type Places struct {
	Client  string // "codex", "gemini"; "" is Claude Code
	Home    string
	Config  string // CLAUDE_CONFIG_DIR or CODEX_HOME, "" for the usual place
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
		files := []string{filepath.Join(p.Home, filepath.FromSlash(name))}
		if p.Config != "" {
			files[0] = filepath.Join(p.Config, filepath.Base(name))
		}
		if p.Project != "" {
			files = append(files, filepath.Join(p.Project, filepath.FromSlash(name)))
		}
		return files
	}
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
		// Every one of these clients is told of a session's start.
		if err == nil && bytes.Contains(b, []byte("cachebro")) && bytes.Contains(b, []byte(" hook SessionStart")) {
			return file
		}
	}
	return ""
}

// ServerRegistered names the file in which init registered our MCP server for Claude
// Code, "" if none.
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
