package clients

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// TestPluginFiles: the plugin's files are what the program makes of them.
func TestPluginFiles(t *testing.T) {
	file := filepath.Join("..", "plugin", "hooks", "hooks.json")
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
