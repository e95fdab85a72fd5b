package running

import (
	"cachebro/cmd/cachebro/cli"
	"encoding/json"
	"strings"
	"testing"
)

func TestDressClaude(t *testing.T) {
	e := &cli.Env{Exe: "/opt/cachebro"}
	args, err := dress(e, "claude", []string{"claude", "-p", "hello", "--settings", `{"model":"x","hooks":{"Stop":[{"hooks":[{"type":"command","command":"mine"}]}]}}`})
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
		if got, _ := dress(e, "claude", same); len(got) != len(same) {
			t.Errorf("%q became %q", same, got)
		}
	}
	if _, err := dress(e, "claude", []string{"claude", "--settings", "{broken"}); err == nil || cli.HintOf(err) == "" {
		t.Errorf("broken settings: %v", err)
	}
	if got, _ := dress(e, "make", []string{"make", "test"}); len(got) != 2 {
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
