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

// manPages writes a man page of each command into a directory. It is done here because
// what cobra/doc needs would slow down each start of cachebro, hooks included.
func manPages(dir string, made time.Time) error {
	e := &cli.Env{Stdout: io.Discard, Stderr: io.Discard, Getenv: func(string) string { return "" }}
	root := commands.Root(e)
	root.DisableAutoGenTag = true
	asMarkdown(root)
	return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "cachebro " + cli.Version, Manual: "cachebro", Date: &made}, dir)
}

// asMarkdown keeps signs and indented lines as they are where the man page takes a text
// for Markdown.
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
