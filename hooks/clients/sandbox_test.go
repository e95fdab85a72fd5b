package clients

import (
	"strings"
	"testing"
)

// If the sandbox is on, our commands that read the history or undo changes run outside of it.
// uninit restores the file byte for byte, including the user's own entries.
func TestSandbox(t *testing.T) {
	h := claudeHooks{exe: "/usr/bin/cachebro"}
	for name, tt := range map[string]struct {
		before    string
		adds, has string
	}{
		"on":                  {"{\n  \"sandbox\": {\n    \"enabled\": true\n  }\n}\n", "cachebro undo:*", ""},
		"with others":         {"{\n  \"sandbox\": {\n    \"enabled\": true,\n    \"excludedCommands\": [\n      \"docker *\",\n      \"cachebro log:*\"\n    ]\n  }\n}\n", "cachebro undo:*", "docker *"},
		"all of ours already": {"{\n  \"sandbox\": {\"enabled\": true, \"excludedCommands\": [\"cachebro:*\"]}\n}\n", "", "cachebro:*"},
		"off":                 {"{\n  \"sandbox\": {\"enabled\": false}\n}\n", "", ""},
		"none":                {"{}\n", "", ""},
		"another shape":       {"{\n  \"sandbox\": {\"enabled\": true, \"excludedCommands\": \"docker\"}\n}\n", "", "docker"},
	} {
		added, err := h.Add([]byte(tt.before))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		text := string(added)
		if tt.adds != "" && !strings.Contains(text, tt.adds) || tt.adds == "" && strings.Contains(text, "cachebro undo:*") || !strings.Contains(text, tt.has) {
			t.Errorf("%s:\n%s", name, text)
		}
		for _, starts := range []string{"cachebro run", "cachebro memo"} {
			if strings.Contains(text, starts) {
				t.Errorf("%s: %s would leave the sandbox with any program", name, starts)
			}
		}
		again, err := h.Add(added)
		if err != nil || string(again) != text {
			t.Errorf("%s: a second init changes it (%v)", name, err)
		}
		removed, err := h.Remove(added, []byte(tt.before))
		if err != nil || string(removed) != tt.before {
			t.Errorf("%s: after uninit (%v)\n%s", name, err, removed)
		}
	}
}

// If a user switches the sandbox on after init, doctor says so.
func TestSandboxSwitchedOnLater(t *testing.T) {
	h := claudeHooks{exe: "/usr/bin/cachebro"}
	added, err := h.Add([]byte("{}\n"))
	if err != nil {
		t.Fatal(err)
	}
	on := strings.Replace(string(added), "{", "{\n  \"sandbox\": {\"enabled\": true},", 1)
	got, err := standing(file{"settings.json", h}, Change{Before: []byte(on)})
	if err != nil || got != stale {
		t.Errorf("standing %d (%v), want stale", got, err)
	}
}
