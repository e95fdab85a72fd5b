package main

import (
	"io"
	"strings"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/commands"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// manPages writes a man page for each command. cachebro itself has no command for that, because the
// packages that cobra/doc imports would slow down each start of cachebro, and each hook is such a
// start.
func manPages(dir string, made time.Time) error {
	e := &cli.Env{Stdout: io.Discard, Stderr: io.Discard, Getenv: func(string) string { return "" }}
	root := commands.Root(e)
	root.DisableAutoGenTag = true
	asMarkdown(root)
	return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "cachebro " + cli.Version, Manual: "cachebro", Date: &made}, dir)
}

// asMarkdown escapes the help of a command and its sub-commands, which cobra/doc reads as Markdown, so
// that the man page shows it unchanged.
func asMarkdown(c *cobra.Command) {
	signs := strings.NewReplacer("<", `\<`, "*", `\*`, "_", `\_`)
	lines := strings.Split(c.Long, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "  ") {
			lines[i] = "  " + line
		} else {
			lines[i] = signs.Replace(line)
		}
	}
	c.Long = strings.Join(lines, "\n")
	for _, sub := range c.Commands() {
		asMarkdown(sub)
	}
}
