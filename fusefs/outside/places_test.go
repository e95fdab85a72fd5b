package outside

import "testing"

func TestTemporary(t *testing.T) {
	getenv := func(name string) string { return map[string]string{"TMPDIR": "/home/ann/tmp"}[name] }
	for _, c := range []struct {
		home, path string
		want       bool
	}{
		{"/home/ann", "/tmp/x", true},
		{"/home/ann", "/tmp", false},
		{"/home/ann", "/home/ann/tmp/x", true}, // $TMPDIR
		{"/home/ann", "/home/ann/x", false},
		{"/tmp/ann", "/tmp/ann/x", false}, // a home directory inside such a directory
		{"/tmp/ann", "/tmp/annex", true},
	} {
		if got := NewPlaces(c.home, getenv).Temporary(c.path); got != c.want {
			t.Errorf("home %s: %s is temporary: %v", c.home, c.path, got)
		}
	}
}

// A client's own files are not recorded, whatever names the client's version uses. Files that
// people write in the client's directory are recorded.
func TestSkippedOfClients(t *testing.T) {
	getenv := func(name string) string { return map[string]string{"CODEX_HOME": "/srv/codex"}[name] }
	p := NewPlaces("/home/ann", getenv)
	for path, want := range map[string]bool{
		"/home/ann/.qwen":                             true,
		"/home/ann/.qwen/usage/2026-11.jsonl":         true,
		"/home/ann/.copilot/session-store.db-wal":     true,
		"/srv/codex/state_5.sqlite":                   true,
		"/home/ann/.claude/projects/p/s.jsonl":        true,
		"/home/ann/.claude/settings.json":             false,
		"/home/ann/.claude/commands/review.md":        false,
		"/srv/codex/config.toml":                      false,
		"/home/ann/.gemini/GEMINI.md":                 false,
		"/home/ann/.geminis/state":                    false,
		"/home/ann/project/.claude/shell-snapshots/x": false,
	} {
		if got := p.Skipped(path); got != want {
			t.Errorf("%s is skipped: %v, want %v", path, got, want)
		}
	}
}
