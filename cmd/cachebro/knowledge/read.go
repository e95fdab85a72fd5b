package knowledge

import (
	"context"
	"fmt"
	"io"

	"cachebro/cmd/cachebro/cli"
	"cachebro/store/leaf/text"
	"cachebro/store/wire"

	"github.com/spf13/cobra"
)

// ReadCommand returns the command cachebro read.
func ReadCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "read PATH", Short: "print a file as a reader should get it: text, diff, or unchanged",
		Long: `Prints the file's text, or only what changed since the same reader last got it.
A reader is a session and an agent. Without --session the full text is printed.`,
		Example: `  cachebro read src/main.go --session s1
  cachebro read src/main.go --session s1 --offset 40 --limit 20`,
		Args: e.Args(1, 1),
	}

	fs := cmd.Flags()
	session := fs.String("session", "", "who reads: a session's id")
	agent := fs.String("agent", "", "a sub-agent within the session")
	offset := fs.Int("offset", 0, "first line, from 1")
	limit := fs.Int("limit", 0, "how many lines (0: to the end)")
	force := fs.Bool("force", false, "print the full text, whatever the reader has seen")
	asJSON := fs.Bool("json", false, "print the answer as JSON")
	return cli.Does(cmd, func(ctx context.Context, args []string) error {
		if *offset < 0 || *limit < 0 {
			return e.Usagef("read: --offset and --limit cannot be negative")
		}
		t, err := e.Locate(args[0])
		if err != nil {
			return err
		}
		c, err := e.Connect(ctx, t.Root)
		if err != nil {
			return err
		}
		defer c.Close()
		var a wire.ReadAnswer
		text, err := c.Call(ctx, wire.MRead, wire.ReadRequest{
			Reader: wire.Reader{Session: *session, Agent: *agent}, Path: t.Rel, Offset: *offset, Limit: *limit,
			Force: *force, Tool: "read",
		}, nil, &a)
		if err != nil {
			return err
		}
		if *asJSON {
			m := cli.Object(a, nil)
			cli.JSONPath(m, "path", t.Rel)
			cli.JSONPath(m, "text", text)
			return e.PrintJSON(m)
		}
		return printShown(e, a, text)
	})
}

// printShown prints what a reader gets: the label, if there is one, and the text.
func printShown(e *cli.Env, a wire.ReadAnswer, text []byte) error {
	if a.Label != "" {
		fmt.Fprintln(e.Stdout, a.Label)
	}
	_, err := e.Stdout.Write(text)
	return err
}

// WorkingSetCommand returns the command cachebro working-set.
func WorkingSetCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "working-set", Short: "list the files that a session works on",
		Example: `  cachebro working-set
  cachebro working-set --session last
  cachebro working-set --since 1h`,
		Args: e.Args(0, 0),
	}

	fs := cmd.Flags()
	session := fs.String("session", "", "a session's id, or last (default: all sessions and processes)")
	since := fs.String("since", "", "after this time (12:40) or within this age (default with no session: 24h)")
	limit := fs.IntP("limit", "n", 0, "at most this many files")
	asJSON := fs.Bool("json", false, "one JSON object per file and line")
	return cli.Does(cmd, func(ctx context.Context, _ []string) error {
		var err error
		q := wire.WorkingSetQuery{Session: *session, Limit: *limit}
		if *session == "" && *since == "" {
			*since = "24h"
		}
		q.Since, err = e.TimeFlag("since", *since, ".")
		if err != nil {
			return err
		}
		set, err := cli.Ask[wire.WorkingSet](ctx, e, ".", wire.MWorkingSet, q)
		if err != nil {
			return err
		}
		return printSet(e, set, *asJSON)
	})
}

func printSet(e *cli.Env, set wire.WorkingSet, asJSON bool) error {
	p, now := e.Paint(), e.Now()
	for _, f := range set.Files {
		if asJSON {
			m := cli.Object(f, map[string][]byte{"path": f.Path})
			if err := e.PrintJSON(m); err != nil {
				return err
			}
			continue
		}
		line := p.Dim("R") + " " + cli.Quote(string(f.Path))
		if f.Edits > 0 {
			line = p.Yellow("M") + " " + cli.Quote(string(f.Path)) + " (" + text.Count(f.Edits, "edit") + ")"
		}
		if f.Deleted {
			line = p.Red("D") + " " + cli.Quote(string(f.Path))
		}
		line += "  " + p.Dim(cli.Stamp(f.Last, now))
		if f.By != "" {
			line += " by " + cli.OneLine(f.By)
		}
		if f.Others != "" {
			line += p.Red(" (also changed by " + cli.OneLine(f.Others) + ")")
		}
		if _, err := fmt.Fprintln(e.Stdout, line); err != nil {
			return err
		}
	}
	if len(set.Files) == 0 && !asJSON {
		fmt.Fprintln(e.Stderr, "no files yet")
	}
	return nil
}

// MetricsCommand returns the command cachebro metrics.
func MetricsCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "metrics", Short: "show the tokens saved, by tool",
		Long: "The counts include the texts that cachebro itself adds, so savings may be negative.",
		Example: `  cachebro metrics
  cachebro metrics --session last
  cachebro metrics --json`,
		Args: e.Args(0, 0),
	}

	fs := cmd.Flags()
	session := fs.String("session", "", "a session's id, or last (default: all)")
	asJSON := fs.Bool("json", false, "print JSON")
	return cli.Does(cmd, func(ctx context.Context, _ []string) error {
		m, err := cli.Ask[wire.Metrics](ctx, e, ".", wire.MMetrics, wire.MetricsQuery{Session: *session})
		if err != nil {
			return err
		}
		if *asJSON {
			return e.PrintJSON(m)
		}
		printMetrics(e.Stdout, e.Paint(), m)
		return nil
	})
}

// printMetrics prints what each tool saved, and the costs.
func printMetrics(w io.Writer, p cli.Paint, m wire.Metrics) {
	for _, t := range m.Tools {
		saved := p.Dim("0")
		if t.Saved != 0 {
			saved = p.Green("~" + text.Thousands(t.Saved))
		}
		fmt.Fprintf(w, "  %-18s %6dx   %12s of %s tokens saved\n", cli.OneLine(t.Tool), t.Calls, saved, text.Thousands(t.Full))
	}
	fmt.Fprintf(w, "without cachebro ~%s, delivered ~%s, overhead ~%s: %s\n", text.Thousands(m.Full), text.Thousands(m.Sent), text.Thousands(m.Overhead), p.Bold(fmt.Sprintf("~%s saved (%.1f%%)", text.Thousands(m.Saved), m.Percent)))
}
