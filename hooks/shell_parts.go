package hooks

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"cachebro/store/wire"

	"mvdan.cc/sh/v3/syntax"
)

// Agents read several files with one command: cat a b; head -5 a && cat -n b. Each
// part that only shows a file is shortened, the others stay. What a part printed is
// not told by the client, so it is computed from the files and held against the
// output: where that differs in a byte, everything is left alone.

// part is what one command of a line printed: lines of a file, or a known text, or
// something unknown.
type part struct {
	show shown
	text string
	kind partKind
}

type partKind int

const (
	partUnknown partKind = iota
	partText
	partShow
)

const (
	maxParts    = 16
	maxPartFile = 1 << 20 // bytes of a file that a hook reads
)

// parseParts splits a command line; ok: it shows a file, and is no command that
// parseShow knows. What is unknown stands together in one place.
func parseParts(command string) (parts []part, ok bool) {
	if len(command) > maxCommand {
		return nil, false
	}
	if _, single := parseShow(command); single {
		return nil, false
	}
	f, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(command), "")
	if err != nil {
		return nil, false
	}
	dir := ""
	for _, s := range f.Stmts {
		if !flatten(s, &dir, &parts) {
			return nil, false
		}
	}
	shows, gaps := 0, 0
	for i, p := range parts {
		if p.kind == partShow {
			shows++
		}
		if p.kind == partUnknown && (i == 0 || parts[i-1].kind != partUnknown) {
			gaps++
		}
	}
	return parts, shows > 0 && gaps <= 1 && len(parts) <= maxParts
}

// flatten adds what a statement prints. dir is where it runs, as far as it is known.
func flatten(s *syntax.Stmt, dir *string, parts *[]part) bool {
	if s.Background || s.Coprocess || s.Negated {
		return false
	}
	if b, ok := s.Cmd.(*syntax.BinaryCmd); ok && b.Op == syntax.AndStmt && len(s.Redirs) == 0 {
		return flatten(b.X, dir, parts) && flatten(b.Y, dir, parts)
	}
	if args, ok := literals(s); ok {
		switch {
		case args[0] == "cd":
			if len(args) != 2 || strings.HasPrefix(args[1], "-") {
				return false
			}
			if filepath.IsAbs(args[1]) {
				*dir = args[1]
			} else {
				*dir = filepath.Join(*dir, args[1])
			}
			return true
		case args[0] == "echo" && (len(args) == 1 || !strings.HasPrefix(args[1], "-")) && !strings.Contains(strings.Join(args, ""), `\`):
			*parts = append(*parts, part{kind: partText, text: strings.Join(args[1:], " ") + "\n"})
			return true
		}
	}
	if shows, ok := showsOf(s); ok {
		for _, p := range shows {
			p.show.dir = *dir
			*parts = append(*parts, p)
		}
		return true
	}
	switch s.Cmd.(type) {
	case *syntax.CallExpr, *syntax.BinaryCmd:
		if changesDir(s) {
			return false
		}
		*parts = append(*parts, part{})
		return true
	}
	return false
}

// changesDir: what follows may run elsewhere.
func changesDir(s *syntax.Stmt) (found bool) {
	syntax.Walk(s, func(n syntax.Node) bool {
		if c, ok := n.(*syntax.CallExpr); ok && len(c.Args) > 0 {
			switch name, _ := literal(c.Args[0]); name {
			case "cd", "pushd", "popd", "exec", "source", ".", "eval", "exit", "":
				found = true
			}
		}
		return !found
	})
	return found
}

// showsOf are the files that a statement shows: what parseShow knows, with line
// numbers or without, or cat of several.
func showsOf(s *syntax.Stmt) ([]part, bool) {
	if one, ok := showOf(s); ok {
		return []part{{kind: partShow, show: one}}, true
	}
	args, ok := literals(s)
	if !ok || len(args) < 2 || args[0] != "cat" {
		return nil, false
	}
	var parts []part
	for _, name := range args[1:] {
		one, ok := showArgs([]string{"cat", name})
		if !ok {
			return nil, false
		}
		parts = append(parts, part{kind: partShow, show: one})
	}
	return parts, true
}

// lines are the raw lines that a part shows, as the file is now, and what it printed.
func (p part) lines(cwd string) (raw, printed string, first, count int, ok bool) {
	name := p.show.path(cwd)
	fi, err := os.Stat(name)
	if err != nil || !fi.Mode().IsRegular() || fi.Size() > maxPartFile {
		return "", "", 0, 0, false
	}
	b, err := os.ReadFile(name)
	if err != nil || len(b) == 0 || !utf8.Valid(b) {
		return "", "", 0, 0, false
	}
	all := strings.SplitAfter(string(b), "\n")
	if all[len(all)-1] == "" {
		all = all[:len(all)-1]
	}
	first, last := p.show.first, len(all)
	if p.show.last > 0 {
		last = min(last, p.show.last)
	}
	if p.show.tail > 0 {
		first = max(1, len(all)-p.show.tail+1)
	}
	if first > last {
		return "", "", 0, 0, false
	}
	raw = strings.Join(all[first-1:last], "")
	if printed = raw; p.show.numbered {
		printed = catNumbers(raw, first)
	}
	return raw, printed, first, last - first + 1, true
}

// catNumbers is what cat -n makes of lines.
func catNumbers(text string, first int) string {
	var b strings.Builder
	for l := range strings.Lines(text) {
		fmt.Fprintf(&b, "%6d\t%s", first, l)
		first++
	}
	return b.String()
}

// partsResult shortens the parts of a command's output.
func (c *call) partsResult(ctx context.Context, parts []part) answer {
	stdout, ok := plainOutput(c.response)
	if !ok || c.toolUse == "" || c.input.truth("run_in_background") || c.opt.noRewrite || !c.checkChain(ctx) {
		return answer{}
	}
	type piece struct {
		part
		raw, printed string
		first, count int
	}
	pieces := make([]piece, len(parts))
	before, after, gap := "", "", false
	for i, p := range parts {
		pc := piece{part: p, printed: p.text}
		if p.kind == partShow {
			if pc.raw, pc.printed, pc.first, pc.count, ok = p.lines(c.cwd); !ok {
				return answer{}
			}
		}
		switch {
		case p.kind == partUnknown:
			gap = true
		case gap:
			after += pc.printed
		default:
			before += pc.printed
		}
		pieces[i] = pc
	}
	// The client takes the white space off the end.
	rest, ok := strings.CutPrefix(stdout, before)
	if !gap {
		rest, ok = "", strings.TrimRight(stdout, " \t\r\n") == strings.TrimRight(before, " \t\r\n")
	}
	middle := strings.TrimSuffix(rest, strings.TrimRight(after, " \t\r\n"))
	if !ok || after != "" && len(middle) == len(rest) || after != "" && middle != "" && !strings.HasSuffix(middle, "\n") {
		return answer{}
	}
	word := c.look()
	var out strings.Builder
	shortened, told := false, false
	for i, p := range pieces {
		text := p.printed
		switch p.kind {
		case partUnknown:
			if !told {
				out.WriteString(middle)
			}
			told = true
			continue
		case partShow:
			path, inside := c.relative(p.show.path(c.cwd))
			if !inside {
				break
			}
			req := wire.ReadRequest{Reader: c.reader(), Path: []byte(path), Offset: p.first, Limit: p.count, Tool: "Bash", Pending: true, Context: word,
				Rewrite: &wire.Rewrite{Rendering: renderBash, StartLine: p.first, NumLines: p.count, Part: i + 1}}
			var ans wire.ReadAnswer
			word = "" // said once
			body, err := c.ask(ctx, wire.MRead, req, []byte(p.raw), &ans)
			if err != nil {
				return answer{}
			}
			// After a text that does not end its line ours would be taken for the
			// rest of it.
			atLine := out.Len() == 0 || strings.HasSuffix(out.String(), "\n")
			if new, ok := p.shorter(ans, string(body)); ok && len(new) < len(text) && atLine && !c.refuses(formShell) {
				text, shortened = new, true
			}
		}
		out.WriteString(text)
	}
	s := sent{toolUse: c.toolUse, own: outputDigest(stdout), new: outputDigest(out.String())}
	if !shortened {
		s.note(c) // no form: that the client's own text is delivered refuses none
		return answer{}
	}
	s.form = formShell
	return answer{out: output{updated: withStdout(c.response, strings.TrimRight(out.String(), " \t\r\n"))}, sent: func() { s.note(c) }}
}

// shorter is what stands in the place of a part.
func (p part) shorter(ans wire.ReadAnswer, body string) (string, bool) {
	if body == "" || !utf8.ValidString(body) {
		return "", false
	}
	if !strings.HasSuffix(body, "\n") {
		body += "\n"
	}
	switch ans.Kind {
	case wire.ReadUnchanged:
		return body, strings.HasPrefix(body, ourMark)
	case wire.ReadSpan:
		if p.show.numbered {
			body = catNumbers(body, ans.Start)
		}
		return ans.Note + "\n" + body, strings.HasPrefix(ans.Note, ourMark)
	}
	return "", false
}
