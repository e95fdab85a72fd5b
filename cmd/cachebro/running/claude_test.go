package running

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cachebro/cmd/cachebro/cli"
	"cachebro/hooks/clients"
)

func TestDressClaude(t *testing.T) {
	home, project := t.TempDir(), t.TempDir()
	e := &cli.Env{Exe: "/opt/cachebro", Getenv: func(name string) string { return map[string]string{"HOME": home}[name] }}
	args, err := addClientFlags(e, "claude", project, []string{"claude", "-p", "hello", "--settings", `{"model":"x","hooks":{"Stop":[{"hooks":[{"type":"command","command":"mine"}]}]}}`})
	if err != nil {
		t.Fatal(err)
	}
	if len(args) != 5 || args[3] != "-p" || args[4] != "hello" {
		t.Fatalf("%q", args)
	}
	var settings struct {
		Model string
		Hooks map[string][]struct {
			Hooks []struct{ Command string }
		}
	}
	decode(t, args[1], "--settings=", &settings)
	stop := settings.Hooks["Stop"]
	if settings.Model != "x" || len(stop) != 2 || stop[1].Hooks[0].Command != "mine" {
		t.Errorf("%+v", settings)
	}
	var mcp struct {
		MCPServers map[string]struct{ Command string }
	}
	decode(t, args[2], "--mcp-config=", &mcp)
	if mcp.MCPServers["cachebro"].Command != "/opt/cachebro" {
		t.Errorf("%+v", mcp)
	}
	for _, same := range [][]string{{"claude", "mcp", "list"}, {"claude", "--version"}} {
		if got, _ := addClientFlags(e, "claude", project, same); len(got) != len(same) {
			t.Errorf("%q became %q", same, got)
		}
	}
	if _, err := addClientFlags(e, "claude", project, []string{"claude", "--settings", "{broken"}); err == nil || cli.HintOf(err) == "" {
		t.Errorf("broken settings: %v", err)
	}
	// If init registered hooks, only those are used, because they have the options that the user
	// chose.
	for _, dir := range []string{home, project} {
		file := filepath.Join(dir, ".claude", "settings.json")
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, clients.ClaudeSettings("/opt/cachebro", "--hold"), 0o644); err != nil {
			t.Fatal(err)
		}
		args, err := addClientFlags(e, "claude", project, []string{"claude", "--settings", `{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"mine"}]}]}}`})
		if err != nil || len(args) != 3 || strings.Contains(args[1], "cachebro") || !strings.Contains(args[1], "mine") {
			t.Errorf("with hooks in %s: %q %v", dir, args, err)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	if got, _ := addClientFlags(e, "make", project, []string{"make", "test"}); len(got) != 2 {
		t.Errorf("make became %q", got)
	}
}

func decode(t *testing.T, arg, prefix string, v any) {
	t.Helper()
	text, ok := strings.CutPrefix(arg, prefix)
	if !ok {
		t.Fatalf("%q does not begin with %s", arg, prefix)
	}
	if err := json.Unmarshal([]byte(text), v); err != nil {
		t.Fatal(err)
	}
}
