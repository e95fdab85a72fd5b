package commands

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"cachebro/cmd/cachebro/cli"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// say runs a command line in an environment without any settings.
func say(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	var stdout, stderr strings.Builder
	e := &cli.Env{Stdin: os.Stdin, Stdout: &stdout, Stderr: &stderr, Dir: t.TempDir(), Getenv: func(string) string { return "" }, Now: time.Now}
	status = e.Run(Root(e), args)
	return status, stdout.String(), stderr.String()
}

// eachCommand calls do for every command, with the words that name it.
func eachCommand(do func(c *cobra.Command, words []string)) {
	e := &cli.Env{Stdout: io.Discard, Stderr: io.Discard, Getenv: func(string) string { return "" }}
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		do(c, strings.Fields(c.CommandPath())[1:])
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(Root(e))
}

// TestEveryCommandHasHelp checks that each command has a help page with all its flags and an
// example, and that the page fits on a terminal. The completion must know the same flags.
func TestEveryCommandHasHelp(t *testing.T) {
	n := 0
	eachCommand(func(c *cobra.Command, words []string) {
		if len(words) > 0 && words[0] == "completion" { // cobra's own
			return
		}
		n++
		name := strings.Join(words, " ")
		status, out, errs := say(t, append(words, "--help")...)
		if status != 0 || !strings.Contains(out, c.Short) {
			t.Errorf("%s --help: exit status %d\n%s%s", name, status, out, errs)
		}
		for line := range strings.Lines(out) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("%s --help: %d columns: %s", name, n, line)
			}
		}
		if c.Hidden && c.Example == "" {
			return // started only by cachebro itself
		}
		if !c.HasSubCommands() && !strings.Contains(out, "Examples:") {
			t.Errorf("%s --help shows no example:\n%s", name, out)
		}
		_, offered, _ := say(t, append(append([]string{"__complete"}, words...), "--")...)
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden || f.Name == "help" || f.Name == "version" {
				return
			}
			if f.Usage == "" || !strings.Contains(out, "--"+f.Name) {
				t.Errorf("%s --%s: no word on what it does", name, f.Name)
			}
			if !c.DisableFlagParsing && !strings.Contains(offered, "--"+f.Name) {
				t.Errorf("%s --%s is not completed:\n%s", name, f.Name, offered)
			}
		})
	})
	if n < 50 {
		t.Errorf("only %d commands found", n)
	}
}

// TestFirstPage checks that each everyday command has a line on the main help page.
func TestFirstPage(t *testing.T) {
	_, out, _ := say(t)
	_, everyday, _ := strings.Cut(out, "\nEveryday:\n")
	everyday, _, _ = strings.Cut(everyday, "\n\n")
	if n := strings.Count(everyday, "\n") + 1; n != 16 {
		t.Errorf("%d everyday commands:\n%s", n, out)
	}
	if n := strings.Count(out, "\n"); n > 50 {
		t.Errorf("%d lines", n)
	}
}

func TestUsageErrors(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"frobnicate", "unknown command frobnicate\nhint: cachebro help\n"},
		{"lgo", "unknown command lgo\nhint: did you mean cachebro log?\n"},
		{"mcp", "unknown command mcp\nhint: did you mean cachebro serve?\n"},
		{"store prnue", "unknown command store prnue\nhint: did you mean cachebro store prune?\n"},
		{"help store prnue", "unknown command store prnue\nhint: cachebro help\n"},
		{"--frob", "unknown flag: --frob\nhint: cachebro help\n"},
		{"log --frob", "log: unknown flag: --frob\nhint: cachebro help log\n"},
		{"log --sinc 5m", "log: unknown flag: --sinc\nhint: did you mean --since?\n"},
		{"log a b", "log: unexpected argument b\nhint: cachebro help log\n"},
		{"log --dir none", "--dir none: there is no such directory\nhint: cachebro help log\n"},
		{"show", "show: missing argument: usage: cachebro show [NAME:]PATH[@VERSION] | NUMBER\nhint: cachebro help show\n"},
		{"log --since yesterday", "--since yesterday: want"},
		{"store prune 0", "prune: 0: want how many versions"},
		{"store prune 2x", "prune: 2x: want how many versions"},
		{"store prune /", "1 or more; prune works on a whole history\nhint: cachebro store prune --dir /\n"},
		{"store prune /dev/null", "use purge\nhint: cachebro store purge /dev/null\n"},
		{"restore", "restore: --at is missing"},
		{"revert a --steps 0", "revert: --steps 0: want 1 or more"},
		{"mount --allow-other --no-allow-other", "contradict"},
		{"mountd", "mountd is started by cachebro mount"},
		{"supervise --root x", "supervise is started by cachebro mount"},
		{"daemon", "daemon: --root must be an absolute path"},
	} {
		if status, _, errs := say(t, strings.Fields(c.args)...); status != 2 || !strings.HasPrefix(errs, "cachebro: ") || !strings.Contains(errs, c.want) || !strings.Contains(errs, "hint: ") {
			t.Errorf("%s: exit status %d\n%s", c.args, status, errs)
		}
	}
}
