package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"cachebro/store/wire"
)

func blameCommand() command {
	return command{
		name: "blame", group: groupEvery, args: "PATH[@VERSION]", short: "who wrote each line of a file: process, session, prompt",
		long: `One line of the file per line: the version that wrote it (for show and diff), when
and who that was, the session and tool call where they are known, and the text.
Lines that were there before the first change are marked as found there.

Examples:
  cachebro blame src/main.go
  cachebro blame src/main.go@12:40
  cachebro blame --json src/main.go | jq .prompt`,
		run: runBlame,
	}
}

func runBlame(ctx context.Context, e *env) error {
	fs := e.flags()
	asJSON := fs.Bool("json", false, "one JSON object per line")
	args, err := e.parse(fs, 1, 1)
	if err != nil {
		return err
	}
	path, q, err := e.splitVersion(args[0])
	if err != nil {
		return err
	}
	if path == "" {
		return e.usagef("blame: a path is missing before %s", quote(args[0]))
	}
	t, c, err := e.open(ctx, path)
	if err != nil {
		return err
	}
	defer c.Close()
	if len(t.rel) == 0 {
		return hintf("cachebro log "+arg(path), "%s is the project itself, not a file", quote(path))
	}
	q.Path = t.rel
	var a wire.BlameAnswer
	text, err := c.Call(ctx, wire.MBlame, q, nil, &a)
	if err != nil {
		return err
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	if len(lines) < len(a.Lines) {
		return fmt.Errorf("blame %s: the daemon sent %d lines and names the writers of %d", quote(path), len(lines), len(a.Lines))
	}
	if *asJSON {
		for i, k := range a.Lines {
			m, err := versionObject(a.Versions[k])
			if err != nil {
				return err
			}
			m["line"], m["text"] = i+1, strings.ToValidUTF8(string(bytes.TrimSuffix(lines[i], []byte("\n"))), "\uFFFD")
			if err := e.printJSON(m); err != nil {
				return err
			}
		}
		return nil
	}
	return e.page(func(w io.Writer) error { return e.printBlame(w, a, lines) })
}

// printBlame puts a column before each line, empty where it says the same as
// the line above.
func (e *env) printBlame(w io.Writer, a wire.BlameAnswer, lines [][]byte) error {
	p := paint{e.colour()}
	heads, width := make([]string, len(a.Versions)), 0
	for i, v := range a.Versions {
		author := who(v.Actor)
		if v.Op == "baseline" {
			author = "found there"
		}
		heads[i] = fmt.Sprintf("#%-6d %s %s %s", v.Seq, stamp(v.Time, e.now()), author, whose(v.Actor))
		heads[i] = strings.TrimRight(heads[i], " ")
		width = max(width, len([]rune(heads[i])))
	}
	for i, k := range a.Lines {
		head := heads[k]
		if i > 0 && a.Lines[i-1] == k {
			head = ""
		}
		pad := strings.Repeat(" ", width-len([]rune(head)))
		if _, err := fmt.Fprintf(w, "%s%s %5d  %s\n", p.dim(head), pad, i+1, oneLine(strings.ReplaceAll(string(bytes.TrimSuffix(lines[i], []byte("\n"))), "\t", "    "))); err != nil {
			return err
		}
	}
	return nil
}
