package hooks

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cachebro/hooks/clients"
)

// TestPluginStepsBack: the plugin's hooks do nothing if init or run has registered hooks. A server
// that init registered is found too.
func TestPluginStepsBack(t *testing.T) {
	home, project := t.TempDir(), t.TempDir()
	env := map[string]string{"HOME": home, "CLAUDE_PROJECT_DIR": project}
	e := Env{Getenv: func(k string) string { return env[k] }}
	plugin := parseOptions([]string{"--plugin", "PostToolUse"})
	if defersToInit(e, plugin, event{}) || defersToInit(e, parseOptions(nil), event{}) {
		t.Error("steps back though nothing else is registered")
	}
	write := func(file string, text []byte) {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{filepath.Join(home, ".claude", "settings.json"), filepath.Join(project, ".claude", "settings.local.json")} {
		write(file, clients.ClaudeSettings("/opt/cachebro"))
		if !defersToInit(e, plugin, event{}) {
			t.Errorf("acts though %s has our hooks", file)
		}
		if defersToInit(e, parseOptions([]string{"PostToolUse"}), event{}) {
			t.Error("the registered hook steps back itself")
		}
		write(file, []byte(`{"hooks":{}}`))
	}
	if defersToInit(e, plugin, event{}) {
		t.Error("steps back from settings without our hooks")
	}
	env["CACHEBRO_HOOKS"] = "run"
	if !defersToInit(e, plugin, event{}) {
		t.Error("acts beside run's hooks")
	}
	p := clients.Places{Home: home, Project: project}
	if got := p.ServerRegistered(); got != "" {
		t.Errorf("server registered in %q", got)
	}
	write(filepath.Join(home, ".claude.json"), []byte(`{"projects":{"`+project+`":{"mcpServers":{"cachebro":{}}}}}`))
	if got := p.ServerRegistered(); !strings.HasSuffix(got, ".claude.json") {
		t.Errorf("server registered in %q", got)
	}
	write(filepath.Join(home, ".claude.json"), []byte(`{}`))
	write(filepath.Join(project, ".mcp.json"), clients.ClaudeMCP("cachebro"))
	if got := p.ServerRegistered(); !strings.HasSuffix(got, ".mcp.json") {
		t.Errorf("server registered in %q", got)
	}
}

// TestExtensionStepsBack is TestPluginStepsBack for clients whose extensions have hooks. Hooks
// in a file of another client do not count.
func TestExtensionStepsBack(t *testing.T) {
	home, config, project := t.TempDir(), t.TempDir(), t.TempDir()
	env := map[string]string{"HOME": home}
	e := Env{Getenv: func(k string) string { return env[k] }}
	ev := event{cwd: project}
	opt := func(client string) options { return parseOptions([]string{"--client=" + client, "--plugin", "Stop"}) }
	write := func(file, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(home, ".claude", "settings.json"), string(clients.ClaudeSettings("/opt/cachebro")))
	const ours = `{"hooks":{"SessionStart":[{"hooks":[{"command":"/opt/cachebro hook SessionStart --client=x"}]}]}}`
	for _, c := range []struct{ client, file string }{
		{"gemini", filepath.Join(home, ".gemini", "settings.json")}, {"gemini", filepath.Join(project, ".gemini", "settings.json")},
		{"codex", filepath.Join(home, ".codex", "hooks.json")}, {"codex", filepath.Join(project, ".codex", "hooks.json")},
	} {
		if defersToInit(e, opt(c.client), ev) {
			t.Errorf("%s steps back though nothing else is registered", c.client)
		}
		write(c.file, ours)
		if !defersToInit(e, opt(c.client), ev) {
			t.Errorf("%s acts though %s has our hooks", c.client, c.file)
		}
		write(c.file, "{}")
	}
	env["CODEX_HOME"] = config
	write(filepath.Join(config, "hooks.json"), ours)
	if !defersToInit(e, opt("codex"), ev) || defersToInit(e, opt("gemini"), ev) || defersToInit(e, opt("opencode"), ev) {
		t.Error("CODEX_HOME: another client steps back, or Codex does not")
	}
}
