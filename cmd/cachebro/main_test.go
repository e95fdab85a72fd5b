package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func writeFile(dir, name string) error {
	return os.WriteFile(filepath.Join(dir, name), nil, 0o644)
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

// TestEveryCommandHasHelp: a page with examples, and no mistake in its flags.
func TestEveryCommandHasHelp(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range commands() {
		if seen[c.name] {
			t.Errorf("%s is there twice", c.name)
		}
		seen[c.name] = true
		var out strings.Builder
		e := &env{stdin: os.Stdin, stdout: &out, stderr: io.Discard, name: c.name, args: []string{"--help"}, getenv: func(string) string { return "" }}
		if status := run(e); status != 0 {
			t.Errorf("%s --help: exit status %d", c.name, status)
		}
		if c.group != "" && (!strings.Contains(out.String(), "Examples:") || !strings.Contains(out.String(), c.short)) {
			t.Errorf("%s --help:\n%s", c.name, out.String())
		}
	}
}

func TestUsageErrors(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"frobnicate", "unknown command frobnicate\nhint: cachebro help\n"},
		{"lgo", "unknown command lgo\nhint: did you mean cachebro log?\n"},
		{"--frob", "unknown flag --frob\nhint: cachebro help\n"},
		{"log --frob", "log: unknown flag: --frob\nhint: cachebro help log\n"},
		{"log a b", "log: unexpected argument b\nhint: cachebro help log\n"},
		{"show", "show: missing argument: usage: cachebro show PATH[@VERSION] | #SEQ\nhint: cachebro help show\n"},
		{"log --since yesterday", "--since yesterday: want"},
		{"prune 0", "prune: 0: want how many versions"},
		{"prune 2x", "prune: 2x: want how many versions"},
		{"restore", "restore: --at is missing"},
		{"revert a --steps 0", "revert: --steps 0: want 1 or more"},
		{"mount --allow-other --no-allow-other", "contradict"},
		{"mountd", "mountd is started by cachebro mount"},
		{"supervise --root x", "supervise is started by cachebro mount"},
		{"daemon", "daemon: --root must be an absolute path"},
	} {
		var errText strings.Builder
		f := strings.Fields(c.args)
		e := &env{stdin: os.Stdin, stdout: io.Discard, stderr: &errText, name: f[0], args: f[1:], dir: t.TempDir(), getenv: func(string) string { return "" }}
		e.now = newEnv([]string{"cachebro"}).now
		if status := run(e); status != 2 || !strings.HasPrefix(errText.String(), "cachebro: ") || !strings.Contains(errText.String(), c.want) || !strings.Contains(errText.String(), "hint: ") {
			t.Errorf("%s: exit status %d\n%s", c.args, status, errText.String())
		}
	}
}
