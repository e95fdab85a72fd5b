package main

import (
	"context"
	"fmt"
	"io"

	"cachebro/store/wire"
)

func showCommand() command {
	return command{
		name: "show", group: groupEvery, args: "PATH[@VERSION] | #SEQ", short: "a file's content as it was",
		long: `Writes the content of a version, byte for byte, to standard output. VERSION is a
number from log (@3), a step back from the newest (@-1), or a time (@12:40,
@10m). #SEQ is a sequence number from log. Without a version: the newest one.

Examples:
  cachebro show src/main.go@-1
  cachebro show src/main.go@12:40 > main.go.old
  cachebro show '#812'`,
		run: runShow,
	}
}

func runShow(ctx context.Context, e *env) error {
	fs := e.flags()
	dir := fs.String("dir", ".", "the project, where #SEQ does not tell")
	asJSON := fs.Bool("json", false, "print what is known of the version, not its content")
	args, err := e.parse(fs, 1, 1)
	if err != nil {
		return err
	}
	path, q, err := e.splitVersion(args[0])
	if err != nil {
		return err
	}
	if path == "" && q.Seq == 0 {
		return e.usagef("show: a path is missing before %s", quote(args[0]))
	}
	where := *dir
	if path != "" {
		where = path
	}
	t, c, err := e.open(ctx, where)
	if err != nil {
		return err
	}
	defer c.Close()
	if path != "" {
		q.Path = t.rel
		if len(t.rel) == 0 {
			return hintf("cachebro log "+arg(path), "%s is the project itself, not a file", quote(path))
		}
	}
	var v wire.Version
	content, err := c.Call(ctx, wire.MShow, q, nil, &v)
	if err != nil {
		return err
	}
	if *asJSON {
		m, err := versionObject(v)
		if err != nil {
			return err
		}
		return e.printJSON(m)
	}
	if len(v.Target) > 0 {
		content = append(v.Target, '\n')
	} else if v.NoContent != "" {
		return hintf("cachebro log "+arg(string(v.Path)), "version #%d of %s has no content: %s", v.Seq, quote(string(v.Path)), v.NoContent)
	}
	_, err = e.stdout.Write(content)
	return err
}

func diffCommand() command {
	return command{
		name: "diff", group: groupEvery, args: "[PATH]", short: "what changed between two versions or moments",
		long: `A unified diff that patch and git apply understand. Without --from: since the
version before the newest one; without --to: up to the file as it is now. For a
directory or the whole project give --since.

Examples:
  cachebro diff src/main.go
  cachebro diff src/main.go --from 3 --to -1
  cachebro diff --since 10m`,
		run: runDiff,
	}
}

func runDiff(ctx context.Context, e *env) error {
	fs := e.flags()
	from := fs.String("from", "", "version number, #SEQ, time or age")
	to := fs.String("to", "", "version number, #SEQ, time or age")
	since := fs.String("since", "", "for many files: changes after this time (12:40) or within this age (10m)")
	lines := fs.IntP("unified", "U", 3, "lines of context")
	asJSON := fs.Bool("json", false, "print counts and the diff as JSON")
	args, err := e.parse(fs, 0, 1)
	if err != nil {
		return err
	}
	var q wire.DiffQuery
	if q.From, err = e.versionFlag("from", *from); err != nil {
		return err
	}
	if q.To, err = e.versionFlag("to", *to); err != nil {
		return err
	}
	if q.Since, err = e.timeFlag("since", *since); err != nil {
		return err
	}
	q.Context = *lines
	path := first(args, ".")
	if len(args) > 0 && *from == "" && *to == "" {
		var v wire.ShowQuery
		if path, v, err = e.splitVersion(path); err != nil {
			return err
		}
		q.From = v
		if path == "" {
			return e.usagef("diff: a path is missing; use --from '%s'", args[0])
		}
	}
	t, c, err := e.open(ctx, path)
	if err != nil {
		return err
	}
	defer c.Close()
	q.Path = t.rel
	if len(t.rel) == 0 && q.Since.IsZero() {
		if !q.From.At.IsZero() && isNewest(q.To) {
			q.Since, q.From = q.From.At, wire.ShowQuery{}
		} else {
			return e.usagef("diff: name a file, or give --since for the whole project")
		}
	}
	return e.diff(ctx, c, q, *asJSON)
}

// diff prints one answer.
func (e *env) diff(ctx context.Context, c *wire.Client, q wire.DiffQuery, asJSON bool) error {
	var a wire.DiffAnswer
	body, err := c.Call(ctx, wire.MDiff, q, nil, &a)
	if err != nil {
		return err
	}
	if asJSON {
		return e.printJSON(map[string]any{"files": a.Files, "added": a.Added, "removed": a.Removed, "binary": a.Binary, "diff": string(body)})
	}
	if a.Binary && len(body) == 0 {
		_, err := fmt.Fprintf(e.stdout, "%s is binary and differs\n", quote(string(q.Path)))
		return err
	}
	return e.page(func(w io.Writer) error {
		_, err := io.WriteString(w, paint{e.colour()}.diff(string(body)))
		return err
	})
}

func whatChangedCommand() command {
	return command{
		name: "what-changed", group: groupEvery, args: "[AGE|TIME] [DIR]", short: "files changed lately, with counts and authors",
		long: "Examples:\n  cachebro what-changed            the last 10 minutes\n  cachebro what-changed 1h\n  cachebro what-changed 12:40",
		run:  runWhatChanged,
	}
}
