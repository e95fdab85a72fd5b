package clients

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// noProgram is the message that a session gets if the plugin is installed but cachebro is not. The
// plugin contains no binary, because the same plugin is for all platforms.
const noProgram = `{"systemMessage":"cachebro: the plugin is here, the program is not. To install it: npm install -g cachebro"}`

// hooksFile is the hooks/hooks.json of a plugin.
func hooksFile(regs []registration, options ...string) []byte {
	all := groups(regs, "cachebro", append(options, "--plugin"))
	start := &all["SessionStart"][0].Hooks[0]
	command := strings.TrimSuffix(strings.TrimPrefix(start.Command, "command -v cachebro >/dev/null 2>&1 && "), "; exit 0")
	start.Command = "if command -v cachebro >/dev/null 2>&1; then " + command + "; else echo '" + noProgram + "'; fi; exit 0"
	return indented(map[string]any{"hooks": all})
}

func indented(v any) []byte {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return nil // cannot fail for strings and numbers
	}
	return text.Bytes()
}

// pluginFiles returns the plugins' files that are derived from what init writes, and the skill,
// which all plugins share.
func pluginFiles(t *testing.T) map[string][]byte {
	t.Helper()
	claude := make([]registration, len(registrations))
	for i, r := range registrations {
		r.matcher = strings.ReplaceAll(r.matcher, "mcp__cachebro__", PluginTools)
		claude[i] = r
	}
	skill, err := os.ReadFile(filepath.Join("..", "plugin", "skills", "history", "SKILL.md"))
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{
		"plugin/hooks/hooks.json":        hooksFile(claude),
		"plugin/hooks/codex.json":        hooksFile(codexEvents, "--client=codex"),
		"gemini/hooks/hooks.json":        hooksFile(geminiEvents, "--client=gemini"),
		"gemini/skills/history/SKILL.md": skill,
		"plugin/codex.mcp.json": indented(map[string]any{"mcpServers": map[string]any{
			"cachebro": map[string]any{"command": "cachebro", "args": []string{"serve"}, "env_vars": placeVars},
		}}),
	}
}

// TestPluginFiles checks that the plugins' files are what the program generates.
func TestPluginFiles(t *testing.T) {
	for name, want := range pluginFiles(t) {
		file := filepath.Join("..", filepath.FromSlash(name))
		if *update {
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what the program would write; go test ./hooks/clients -run TestPluginFiles -update", file)
		}
	}
	var start struct {
		SystemMessage string `json:"systemMessage"`
	}
	if err := json.Unmarshal([]byte(noProgram), &start); err != nil || start.SystemMessage == "" {
		t.Errorf("what is said without the program is no answer of a hook: %v", err)
	}
	for _, name := range []string{"plugin/.claude-plugin/plugin.json", "plugin/.mcp.json", "plugin/.codex-plugin/plugin.json", "gemini/gemini-extension.json", "../.claude-plugin/marketplace.json"} {
		b, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		var m map[string]any
		if err := json.Unmarshal(b, &m); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
