package main

import (
	"context"
	"fmt"
	"io"

	"cachebro/store/wire"
)

func readCommand() command {
	return command{
		name: "read", group: groupPlumbing, args: "PATH", short: "a file as a reader should get it: text, diff, or unchanged",
		long: `Prints the file's text, or only what changed since the same reader last got it.
A reader is a session and an agent; without --session nothing was seen before.

Examples:
  cachebro read src/main.go --session s1
  cachebro read src/main.go --session s1 --offset 40 --limit 20`,
		run: runRead,
	}
}

func runRead(ctx context.Context, e *env) error {
	fs := e.flags()
	session := fs.String("session", "", "who reads: a session's id")
	agent := fs.String("agent", "", "a sub-agent within the session")
	offset := fs.Int("offset", 0, "first line, from 1")
	limit := fs.Int("limit", 0, "how many lines (0: to the end)")
	force := fs.Bool("force", false, "the text in full, whatever was seen")
	diffOffset := fs.Int("diff-offset", 0, "go on with a cut diff at this line")
	asJSON := fs.Bool("json", false, "print the answer as JSON")
	args, err := e.parse(fs, 1, 1)
	if err != nil {
		return err
	}
	if *offset < 0 || *limit < 0 || *diffOffset < 0 {
		return e.usagef("read: --offset, --limit and --diff-offset cannot be negative")
	}
	t, err := e.locateOrTop(args[0])
	if err != nil {
		return err
	}
	c, err := e.connect(ctx, t.root)
	if err != nil {
		return err
	}
	defer c.Close()
	var a wire.ReadAnswer
	text, err := c.Call(ctx, wire.MRead, wire.ReadRequest{
		Reader: wire.Reader{Session: *session, Agent: *agent}, Path: t.rel, Offset: *offset, Limit: *limit,
		Force: *force, DiffOffset: *diffOffset, Tool: "read",
	}, nil, &a)
	if err != nil {
		return err
	}
	if *asJSON {
		m, err := object(a, nil)
		if err != nil {
			return err
		}
		jsonPath(m, "path", t.rel)
		jsonPath(m, "text", text)
		return e.printJSON(m)
	}
	if a.Label != "" {
		fmt.Fprintln(e.stdout, a.Label)
	}
	_, err = e.stdout.Write(text)
	return err
}

// locateOrTop is locate for what works without a mount and a history: there the
// work tree's top, or the directory itself, is the project.
func (e *env) locateOrTop(given string) (target, error) {
	t, err := e.locate(given)
	switch err.(type) {
	case nil, *errElsewhere:
		return t, nil
	case *errNoProject:
	default:
		return t, err
	}
	path, err := e.abs(given)
	if err != nil {
		return t, err
	}
	return t.within(resolveParents(path)), nil
}

func workingSetCommand() command {
	return command{
		name: "working-set", group: groupEvery, args: "[DIR]", short: "the files a session works on",
		long: "Examples:\n  cachebro working-set\n  cachebro working-set --session last\n  cachebro working-set --since 1h",
		run: func(ctx context.Context, e *env) error {
			fs := e.flags()
			session := fs.String("session", "", "a session's id, or last (default: everybody)")
			since := fs.String("since", "", "after this time (12:40) or within this age (default with no session: 24h)")
			limit := fs.IntP("limit", "n", 0, "at most this many files")
			asJSON := fs.Bool("json", false, "one JSON object per file and line")
			args, err := e.parse(fs, 0, 1)
			if err != nil {
				return err
			}
			q := wire.WorkingSetQuery{Session: *session, Limit: *limit}
			if *session == "" && *since == "" {
				*since = "24h"
			}
			if q.Since, err = e.timeFlag("since", *since); err != nil {
				return err
			}
			_, c, err := e.open(ctx, first(args, "."))
			if err != nil {
				return err
			}
			defer c.Close()
			set, err := wire.Call[wire.WorkingSet](ctx, c, wire.MWorkingSet, q)
			if err != nil {
				return err
			}
			return e.printSet(set, *asJSON)
		},
	}
}

func (e *env) printSet(set wire.WorkingSet, asJSON bool) error {
	p, now := paint{e.colour()}, e.now()
	for _, f := range set.Files {
		if asJSON {
			m, err := object(f, map[string][]byte{"path": f.Path})
			if err != nil {
				return err
			}
			if err := e.printJSON(m); err != nil {
				return err
			}
			continue
		}
		line := p.dim("R") + " " + quote(string(f.Path))
		if f.Edits > 0 {
			line = p.yellow("M") + " " + quote(string(f.Path)) + " (" + count(f.Edits, "edit") + ")"
		}
		if f.Deleted {
			line = p.red("D") + " " + quote(string(f.Path))
		}
		line += "  " + p.dim(stamp(f.Last, now))
		if f.By != "" {
			line += " by " + oneLine(f.By)
		}
		if f.Others != "" {
			line += p.red(" (also changed by " + oneLine(f.Others) + ")")
		}
		if _, err := fmt.Fprintln(e.stdout, line); err != nil {
			return err
		}
	}
	if len(set.Files) == 0 && !asJSON {
		fmt.Fprintln(e.stderr, "no files yet")
	}
	return nil
}

func metricsCommand() command {
	return command{
		name: "metrics", group: groupEvery, args: "[DIR]", short: "tokens saved, by tool",
		long: "The counts are what was delivered, our own texts included; they may be negative.\n\nExamples:\n  cachebro metrics\n  cachebro metrics --session last\n  cachebro metrics --json",
		run: func(ctx context.Context, e *env) error {
			fs := e.flags()
			session := fs.String("session", "", "a session's id, or last (default: all)")
			asJSON := fs.Bool("json", false, "print JSON")
			args, err := e.parse(fs, 0, 1)
			if err != nil {
				return err
			}
			_, c, err := e.open(ctx, first(args, "."))
			if err != nil {
				return err
			}
			defer c.Close()
			m, err := wire.Call[wire.Metrics](ctx, c, wire.MMetrics, wire.MetricsQuery{Session: *session})
			if err != nil {
				return err
			}
			if *asJSON {
				return e.printJSON(m)
			}
			printMetrics(e.stdout, paint{e.colour()}, m)
			return nil
		},
	}
}

// printMetrics prints what each tool saved, and the costs.
func printMetrics(w io.Writer, p paint, m wire.Metrics) {
	for _, t := range m.Tools {
		saved := p.dim("0")
		if t.Saved != 0 {
			saved = p.green("~" + thousands(t.Saved))
		}
		fmt.Fprintf(w, "  %-18s %6dx   %12s of %s tokens saved\n", oneLine(t.Tool), t.Calls, saved, thousands(t.Full))
	}
	fmt.Fprintf(w, "without cachebro ~%s, delivered ~%s, overhead ~%s: %s\n", thousands(m.Full), thousands(m.Sent), thousands(m.Overhead), p.bold(fmt.Sprintf("~%s saved (%.1f%%)", thousands(m.Saved), m.Percent)))
}

// thousands writes 12345 as 12,345.
func thousands(n int64) string {
	s := fmt.Sprint(n)
	start := 0
	if n < 0 {
		start = 1
	}
	for i := len(s) - 3; i > start; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
