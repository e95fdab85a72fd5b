package clients

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckClients(t *testing.T) {
	s := testSetup(t)
	s.Exe = filepath.Join(s.Home, "cachebro")
	writeFile(t, s.Exe, "#!/bin/sh\ncat >/dev/null\n")
	if err := os.Chmod(s.Exe, 0o755); err != nil {
		t.Fatal(err)
	}
	s.HasProgram = func(n string) bool { return n == "cursor" || n == "gemini" }
	if err := do(t, s, PlanInit, "cursor"); err != nil {
		t.Fatal(err)
	}
	if err := do(t, s, PlanInit, "claude"); err != nil {
		t.Fatal(err)
	}
	other := s
	other.Exe = "/elsewhere/cachebro"
	if err := do(t, other, PlanInit, "codex"); err != nil {
		t.Fatal(err)
	}
	os.Remove(filepath.Join(s.Home, ".claude.json"))
	writeFile(t, filepath.Join(s.Home, ".codeium/windsurf/mcp_config.json"), "{")
	got := map[string]Finding{}
	for _, f := range CheckClients(t.Context(), s) {
		if old, twice := got[f.What]; !twice || old.OK {
			got[f.What] = f
		}
		if !f.OK && f.Fix == "" {
			t.Errorf("no way to mend: %+v", f)
		}
	}
	for what, want := range map[string]string{
		"Cursor": "configured in", "Gemini CLI": "in use, without", "Claude Code": "incomplete", "Codex": "differently",
		"Windsurf": "not valid JSON", "hook command": "a hook takes",
	} {
		if f := got[what]; !strings.Contains(f.Text, want) {
			t.Errorf("%s: %+v, want %q", what, f, want)
		}
	}
	if !got["Cursor"].OK || !got["hook command"].OK || got["Codex"].OK || got["Windsurf"].OK || got["VS Code"].What != "" {
		t.Errorf("findings: %+v", got)
	}
	writeFile(t, s.Exe, "#!/bin/sh\necho hello\n")
	if f := checkHook(t.Context(), s); f.OK || !strings.Contains(f.Text, "hello") {
		t.Errorf("a hook that speaks: %+v", f)
	}
	os.Remove(s.Exe)
	if f := checkHook(t.Context(), s); f.OK || !strings.Contains(f.Text, "cannot be run") {
		t.Errorf("no binary: %+v", f)
	}
}
