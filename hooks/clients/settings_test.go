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

// The registered line ends with 0 whatever the binary does or is.
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
