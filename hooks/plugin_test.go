package hooks

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPluginFiles: the plugin's files are what the program makes of them.
func TestPluginFiles(t *testing.T) {
	file := filepath.Join("plugin", "hooks", "hooks.json")
	if *update {
		if err := os.WriteFile(file, PluginHooks(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, PluginHooks()) {
		t.Errorf("%s is not what the program would write; go test ./hooks -run TestPluginFiles -update", file)
	}
	var start struct {
		SystemMessage string `json:"systemMessage"`
	}
	if err := json.Unmarshal([]byte(noProgram), &start); err != nil || start.SystemMessage == "" {
		t.Errorf("what is said without the program is no answer of a hook: %v", err)
	}
	for _, name := range []string{".claude-plugin/plugin.json", ".mcp.json", "../../.claude-plugin/marketplace.json"} {
		b, err := os.ReadFile(filepath.Join("plugin", name))
		if err != nil {
			t.Fatal(err)
		}
		var m map[string]any
		if err := json.Unmarshal(b, &m); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPluginStepsBack: where init or run has registered hooks or server, the plugin's
// own do nothing.
func TestPluginStepsBack(t *testing.T) {
	home, project := t.TempDir(), t.TempDir()
	env := map[string]string{"HOME": home, "CLAUDE_PROJECT_DIR": project}
	e := Env{Getenv: func(k string) string { return env[k] }}
	plugin := parseOptions([]string{"--plugin", "PostToolUse"})
	if stepsBack(e, plugin, event{}) || stepsBack(e, parseOptions(nil), event{}) {
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
		write(file, ClaudeSettings("/opt/cachebro"))
		if !stepsBack(e, plugin, event{}) {
			t.Errorf("acts though %s has our hooks", file)
		}
		if stepsBack(e, parseOptions([]string{"PostToolUse"}), event{}) {
			t.Error("the registered hook steps back itself")
		}
		write(file, []byte(`{"hooks":{}}`))
	}
	if stepsBack(e, plugin, event{}) {
		t.Error("steps back from settings without our hooks")
	}
	env["CACHEBRO_HOOKS"] = "run"
	if !stepsBack(e, plugin, event{}) {
		t.Error("acts beside run's hooks")
	}
	p := Places{Home: home, Project: project}
	if got := p.ServerRegistered(); got != "" {
		t.Errorf("server registered in %q", got)
	}
	write(filepath.Join(home, ".claude.json"), []byte(`{"projects":{"`+project+`":{"mcpServers":{"cachebro":{}}}}}`))
	if got := p.ServerRegistered(); !strings.HasSuffix(got, ".claude.json") {
		t.Errorf("server registered in %q", got)
	}
	write(filepath.Join(home, ".claude.json"), []byte(`{}`))
	write(filepath.Join(project, ".mcp.json"), ClaudeMCP("cachebro"))
	if got := p.ServerRegistered(); !strings.HasSuffix(got, ".mcp.json") {
		t.Errorf("server registered in %q", got)
	}
}
