package clients

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func indent(t *testing.T, b []byte) string {
	t.Helper()
	var out bytes.Buffer
	if err := json.Indent(&out, b, "", "  "); err != nil {
		t.Fatal(err)
	}
	return out.String() + "\n"
}

// The registered line exits with status 0, whatever the binary is and does.
func TestHookLineStatus(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "it's here")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(dir, "cachebro")
	for body, want := range map[string]int{"": 0, "#!/bin/sh\nexit 2\n": 2, "#!/bin/sh\nkill -9 $$\n": -1} {
		os.Remove(exe)
		if body != "" {
			if err := os.WriteFile(exe, []byte(body), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{exe, "cachebro-is-not-installed"} {
			for _, event := range []string{"PreToolUse", "SessionEnd"} {
				if out, err := exec.Command("/bin/sh", "-c", hookLine(name, event, nil)).CombinedOutput(); err != nil || len(out) > 0 && want != -1 {
					t.Errorf("%s with %q: %v, %s", event, body, err, out)
				}
			}
		}
	}
}

func TestSettings(t *testing.T) {
	golden(t, "settings.golden", indent(t, ClaudeSettings("/opt/cache bro/cachebro", "--stop-line=off"))+indent(t, ClaudeMCP("cachebro")))
}

// Worktree events are registered on request, stay registered as long as they are requested, and are
// removed again. Unlike the failure of any other event, their failure is reported.
func TestWorktrees(t *testing.T) {
	s := testSetup(t)
	s.Exe = filepath.Join(s.Home, "cachebro")
	writeFile(t, s.Exe, "#!/bin/sh\n[ \"$2\" != WorktreeCreate ] || pwd\n[ \"$2\" != WorktreeRemove ] || [ \"$(pwd)\" = / ] || exit 3\n")
	if err := os.Chmod(s.Exe, 0o755); err != nil {
		t.Fatal(err)
	}
	settings := filepath.Join(s.Home, ".claude/settings.json")
	theirs := `{"hooks": {"WorktreeCreate": [{"hooks": [{"type": "command", "command": "make-tree"}]}]}}`
	writeFile(t, settings, theirs)
	registered := func(want bool) {
		t.Helper()
		b, err := os.ReadFile(settings)
		if err != nil || !bytes.Contains(b, []byte("make-tree")) || bytes.Contains(b, []byte("hook WorktreeCreate")) != want || bytes.Contains(b, []byte("hook WorktreeRemove")) != want {
			t.Errorf("registered: want %v, %v:\n%s", want, err, b)
		}
	}
	with := s
	with.Worktrees = true
	for _, step := range []struct {
		s    Setup
		want bool
	}{{s, false}, {with, true}, {s, false}, {with, true}} {
		if err := do(t, step.s, PlanInit, "claude"); err != nil {
			t.Fatal(err)
		}
		registered(step.want)
		for _, f := range CheckClients(t.Context(), s) {
			if f.What == "Claude Code" && !f.OK {
				t.Errorf("doctor: %+v", f)
			}
		}
	}
	if err := do(t, s, PlanUninit, "claude"); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(settings); err != nil || string(b) != theirs {
		t.Errorf("after uninit: %v\n%s", err, b)
	}
	for _, event := range []string{"WorktreeCreate", "WorktreeRemove"} {
		cmd := exec.Command("/bin/sh", "-c", hookLine(s.Exe, event, nil))
		cmd.Dir = s.Home
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v, %s", event, err, out)
		}
		if out, err := exec.Command("/bin/sh", "-c", hookLine("/nowhere/cachebro", event, nil)).CombinedOutput(); err == nil || len(out) == 0 {
			t.Errorf("%s without the binary: %v, %s", event, err, out)
		}
	}
}
