package hooks

import (
	"context"
	"encoding/json"
	"maps"
	"strings"
	"unicode/utf8"

	"cachebro/hooks/shell"
	"cachebro/store/wire"
)

// ourMark begins every sentence that cachebro adds to a result.
const ourMark = "cachebro: "

// shellResult handles the result of a Bash command. It leaves a command with several parts to
// partsResult, and a command that shows no file to commandOutput.
func (c *call) shellResult(ctx context.Context) answer {
	if parts, ok := shell.ParseParts(c.input.str("command")); ok {
		return c.partsResult(ctx, parts)
	}
	show, ok := shell.ParseShow(c.input.str("command"))
	if !ok {
		return c.commandOutput(ctx)
	}
	if c.toolUse == "" || c.input.truth("run_in_background") {
		return answer{}
	}
	path, ok := c.relative(show.Path(c.cwd))
	if !ok {
		return answer{}
	}
	stdout, ok := plainOutput(c.response)
	if !ok {
		return answer{}
	}
	req := wire.ReadRequest{
		Reader: c.reader(), Path: []byte(path), Offset: show.First, Tool: "Bash", Pending: true,
		Rewrite: &wire.Rewrite{Rendering: renderBash, StartLine: show.First},
	}
	switch {
	case show.Tail > 0:
		req.Rewrite.StartLine, req.Rewrite.NumLines = 0, show.Tail
	case show.Last > 0:
		req.Limit = show.Last - show.First + 1
		req.Rewrite.NumLines = req.Limit
	}
	text, ans := c.askRead(ctx, req, stdout)
	new := ""
	switch {
	case ans.Kind == wire.ReadUnchanged:
		new = text
	case ans.Kind == wire.ReadSpan && text != "":
		new = ans.Note + "\n" + text
	}
	if len(new) >= len(stdout) || !utf8.ValidString(new) || !strings.HasPrefix(new, ourMark) || c.refuses(formShell) {
		return answer{}
	}
	return answer{out: output{updated: withStdout(c.response, new)}, sent: func() { sent{ToolUse: c.toolUse, Form: formShell}.note(c) }}
}

// plainOutput returns a command's output, or false unless the command succeeded, printed nothing on
// stderr, and its output was delivered whole.
func plainOutput(f fields) (string, bool) {
	for name, v := range f {
		switch name {
		case "stdout", "noOutputExpected":
			continue
		}
		if s := string(v); s != "false" && s != "null" && s != `""` {
			return "", false // interrupted, isImage, stderr, persistedOutputPath, backgroundTaskId, …
		}
	}
	s := f.str("stdout")
	return s, s != ""
}

// withStdout returns the client's result with another stdout. All other fields stay, because the
// client ignores a result that lacks one.
func withStdout(f fields, stdout string) fields {
	out := maps.Clone(f)
	b, err := json.Marshal(stdout)
	if err != nil {
		return nil
	}
	out["stdout"], out["noOutputExpected"] = b, json.RawMessage("false")
	return out
}

// piece is a part of a command, with what it printed.
type piece struct {
	shell.Part
	printed      string
	raw          string // of a part that shows a file: its lines without numbers
	first, count int    // the number of the first of these lines, and how many there are
}

// printedBy divides stdout among the parts of a command. What the known parts print is known. The
// unknown parts, which are adjacent, printed the rest, which becomes the text of the first of them.
// printedBy returns false if stdout cannot be divided.
func printedBy(parts []shell.Part, stdout, cwd string) ([]piece, bool) {
	pieces, unknown := make([]piece, len(parts)), -1
	before, after := "", "" // the texts of the known parts before and after the unknown ones
	for i, p := range parts {
		pc := piece{Part: p, printed: p.Text}
		if p.Kind == shell.PartShow {
			var ok bool
			pc.raw, pc.printed, pc.first, pc.count, ok = p.Lines(cwd)
			if !ok {
				return nil, false
			}
		}
		switch {
		case p.Kind != shell.PartUnknown && unknown < 0:
			before += pc.printed
		case p.Kind != shell.PartUnknown:
			after += pc.printed
		case unknown < 0:
			unknown = i
		}
		pieces[i] = pc
	}
	if strings.TrimLeft(before, "\r\n") != before {
		return nil, false // the client removes empty lines at the beginning of stdout
	}
	if unknown < 0 {
		return pieces, trimEnd(stdout) == trimEnd(before)
	}
	rest, ok := strings.CutPrefix(stdout, before)
	middle, ended := strings.CutSuffix(rest, trimEnd(after)) // the client removes white space at the end of stdout
	pieces[unknown].printed = middle
	if after != "" {
		atLine := middle == "" || strings.HasSuffix(middle, "\n")
		ok = ok && ended && trimEnd(after) != "" && atLine
	}
	return pieces, ok && strings.TrimLeft(stdout, "\r\n") == stdout
}

// sharesLine reports whether a line of the output is made of texts of two parts, because the first
// file has no newline at its end. The reader then sees the last line of the one and the first line of
// the other only as parts of that line.
func sharesLine(pieces []piece) bool {
	open := false
	for _, p := range pieces {
		if p.printed == "" {
			continue
		}
		if open {
			return true
		}
		open = !strings.HasSuffix(p.printed, "\n")
	}
	return false
}

func trimEnd(s string) string { return strings.TrimRight(s, " \t\r\n") }

// partsResult shortens the parts of a command's output.
func (c *call) partsResult(ctx context.Context, parts []shell.Part) answer {
	stdout, ok := plainOutput(c.response)
	if !ok || c.toolUse == "" || c.input.truth("run_in_background") {
		return answer{}
	}
	if c.opt.noRewrite || !c.checkChain(ctx) {
		return answer{}
	}
	pieces, ok := printedBy(parts, stdout, c.cwd)
	if !ok || sharesLine(pieces) {
		return answer{}
	}
	last := len(pieces) - 1 // becomes the last piece that printed anything but white space
	for last > 0 && strings.TrimSpace(pieces[last].printed) == "" {
		last--
	}
	var out strings.Builder
	asked, shortened := false, false
	for i, p := range pieces {
		text := p.printed
		if i == last {
			p.raw = trimEnd(p.raw) // as the client delivers it
		}
		if path, ok := c.shownFile(p); ok {
			losses := ""
			if !asked { // only the first request reports them, and nothing else would
				losses, asked = c.readLosses(), true
			}
			new, err := c.askPart(ctx, path, p, i+1, losses)
			if err != nil {
				return answer{}
			}
			if new != "" && len(new) < len(text) && !c.refuses(formShell) {
				text, shortened = new, true
			}
		}
		out.WriteString(text)
	}
	s := sent{ToolUse: c.toolUse, Own: outputDigest(stdout), New: outputDigest(out.String())}
	if !shortened {
		s.note(c) // the form stays empty, because nothing was replaced that the client could refuse
		return answer{}
	}
	s.Form = formShell
	return answer{out: output{updated: withStdout(c.response, trimEnd(out.String()))}, sent: func() { s.note(c) }}
}

// shownFile returns the path of the file that a part shows, or false if it shows no file of the
// project.
func (c *scene) shownFile(p piece) (string, bool) {
	if p.Kind != shell.PartShow {
		return "", false
	}
	return c.relative(p.Show.Path(c.cwd))
}

// askPart tells the daemon which lines a part shows. It returns the text that replaces them, or "".
// number is the part's place in the command, counted from 1.
func (c *call) askPart(ctx context.Context, path string, p piece, number int, losses string) (string, error) {
	req := wire.ReadRequest{Reader: c.reader(), Path: []byte(path), Offset: p.first, Limit: p.count, Tool: "Bash", Pending: true, Context: losses,
		Rewrite: &wire.Rewrite{Rendering: renderBash, StartLine: p.first, NumLines: p.count, Part: number}}
	var ans wire.ReadAnswer
	b, err := c.ask(ctx, wire.MRead, req, []byte(p.raw), &ans)
	body := string(b)
	if err != nil || body == "" || !utf8.ValidString(body) {
		return "", err
	}
	if !strings.HasSuffix(body, "\n") {
		body += "\n"
	}
	switch {
	case ans.Kind == wire.ReadUnchanged && strings.HasPrefix(body, ourMark):
		return body, nil
	case ans.Kind == wire.ReadSpan && strings.HasPrefix(ans.Note, ourMark):
		if p.Show.Numbered {
			body = shell.CatNumbers(body, ans.Start)
		}
		return ans.Note + "\n" + body, nil
	}
	return "", nil
}
