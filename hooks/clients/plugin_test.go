package clients

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// noProgram is what a session is told where the plugin is installed and cachebro is
// not. A plugin brings no binary: it is one for all platforms.
const noProgram = `{"systemMessage":"cachebro: the plugin is here, the program is not. To install it: npm install -g cachebro"}`

// pluginHooks is the plugin's hooks/hooks.json.
func pluginHooks() []byte {
	regs := make([]registration, len(registrations))
	for i, r := range registrations {
		r.matcher = strings.ReplaceAll(r.matcher, "mcp__cachebro__", PluginTools)
		regs[i] = r
	}
	all := groups(regs, "cachebro", []string{"--plugin"})
	start := &all["SessionStart"][0].Hooks[0]
	start.Command = "if command -v cachebro >/dev/null 2>&1; then cachebro hook SessionStart --plugin; else echo '" + noProgram + "'; fi; exit 0"
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(map[string]any{"description": "what cachebro has to hear of a session", "hooks": all}); err != nil {
		return nil // strings and numbers only
	}
	return text.Bytes()
}

// TestPluginFiles: the plugin's files are what the program makes of them.
func TestPluginFiles(t *testing.T) {
	file := filepath.Join("..", "plugin", "hooks", "hooks.json")
	if *update {
		if err := os.WriteFile(file, pluginHooks(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, pluginHooks()) {
		t.Errorf("%s is not what the program would write; go test ./hooks/clients -run TestPluginFiles -update", file)
	}
	var start struct {
		SystemMessage string `json:"systemMessage"`
	}
	if err := json.Unmarshal([]byte(noProgram), &start); err != nil || start.SystemMessage == "" {
		t.Errorf("what is said without the program is no answer of a hook: %v", err)
	}
	for _, name := range []string{".claude-plugin/plugin.json", ".mcp.json", "../../.claude-plugin/marketplace.json"} {
		b, err := os.ReadFile(filepath.Join("..", "plugin", name))
		if err != nil {
			t.Fatal(err)
		}
		var m map[string]any
		if err := json.Unmarshal(b, &m); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
