package main

import (
	"io"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"cachebro/cmd/cachebro/cli"
)

// TestEveryCommandHasHelp: a page with examples, and no mistake in its flags.
func TestEveryCommandHasHelp(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range commands() {
		if seen[c.Name] {
			t.Errorf("%s is there twice", c.Name)
		}
		seen[c.Name] = true
		var out strings.Builder
		e := &cli.Env{Stdin: os.Stdin, Stdout: &out, Stderr: io.Discard, Name: c.Name, Args: []string{"--help"}, Getenv: func(string) string { return "" }}
		if status := run(e); status != 0 {
			t.Errorf("%s --help: exit status %d", c.Name, status)
		}
		if c.Group != "" && (!strings.Contains(out.String(), "Examples:") || !strings.Contains(out.String(), c.Short)) {
			t.Errorf("%s --help:\n%s", c.Name, out.String())
		}
		for line := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("%s --help: %d columns: %s", c.Name, n, line)
			}
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
		{"show", "show: missing argument: usage: cachebro show [NAME:]PATH[@VERSION] | NUMBER\nhint: cachebro help show\n"},
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
		e := &cli.Env{Stdin: os.Stdin, Stdout: io.Discard, Stderr: &errText, Name: f[0], Args: f[1:], Dir: t.TempDir(), Getenv: func(string) string { return "" }}
		e.Now = cli.NewEnv([]string{"cachebro"}).Now
		if status := run(e); status != 2 || !strings.HasPrefix(errText.String(), "cachebro: ") || !strings.Contains(errText.String(), c.want) || !strings.Contains(errText.String(), "hint: ") {
			t.Errorf("%s: exit status %d\n%s", c.args, status, errText.String())
		}
	}
}
