package hooks

import (
	"encoding/json"
	"strings"
	"testing"

	"cachebro/hooks/clients"
)

func TestOnlyRegisteredMatchers(t *testing.T) {
	var s struct {
		Hooks map[string][]struct {
			Matcher string
			Hooks   []struct{ Command string }
		}
	}
	if err := json.Unmarshal(clients.ClaudeSettings("/x/cachebro"), &s); err != nil {
		t.Fatal(err)
	}
	for event := range handlers {
		if len(s.Hooks[event]) != 1 {
			t.Errorf("%s is handled but registered %d times", event, len(s.Hooks[event]))
		}
	}
	if len(s.Hooks) != len(handlers) {
		t.Errorf("%d events registered, %d handled", len(s.Hooks), len(handlers))
	}
	if m := s.Hooks["PostToolUse"][0].Matcher; m != "Read|Bash|Edit|Write|Grep|Glob|LS" {
		t.Errorf("PostToolUse matches %s", m)
	}
	if m := s.Hooks["PreToolUse"][0].Matcher; strings.Contains(m, "Read") || strings.Contains(m, "Grep") {
		t.Errorf("PreToolUse matches %s: a process before each read", m)
	}
}
