package hooks

import (
	"context"
	"encoding/json"
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
	if c.opt.noRewrite || !c.checkChain(ctx) {
		c.showOnly(ctx, req, stdout)
		return answer{}
	}
	var ans wire.ReadAnswer
	req.Context = c.readLosses()
	text, err := c.ask(ctx, wire.MRead, req, []byte(stdout), &ans)
	if err != nil {
		return answer{}
	}
	new := ""
	switch ans.Kind {
	case wire.ReadUnchanged:
		new = string(text)
	case wire.ReadSpan:
		if len(text) > 0 {
			new = ans.Note + "\n" + string(text)
		}
	}
	if new == "" || len(new) >= len(stdout) || !utf8.ValidString(new) || !strings.HasPrefix(new, ourMark) || c.refuses(formShell) {
		return answer{}
	}
	return answer{out: output{updated: withStdout(c.response, new)}, sent: func() { sent{toolUse: c.toolUse, form: formShell}.note(c) }}
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
	out := make(fields, len(f)+1)
	for k, v := range f {
		out[k] = v
	}
	b, err := json.Marshal(stdout)
	if err != nil {
		return nil
	}
	out["stdout"], out["noOutputExpected"] = b, json.RawMessage("false")
	return out
}

// partsResult shortens the parts of a command's output.
func (c *call) partsResult(ctx context.Context, parts []shell.Part) answer {
	stdout, ok := plainOutput(c.response)
	if !ok || c.toolUse == "" || c.input.truth("run_in_background") || c.opt.noRewrite || !c.checkChain(ctx) {
		return answer{}
	}
	type piece struct {
		shell.Part
		raw, printed string
		first, count int
	}
	pieces := make([]piece, len(parts))
	// stdout consists of before, middle and after. The unknown parts, which are adjacent, printed
	// middle. What the other parts print is known.
	before, after, gap := "", "", false
	for i, p := range parts {
		pc := piece{Part: p, printed: p.Text}
		if p.Kind == shell.PartShow {
			pc.raw, pc.printed, pc.first, pc.count, ok = p.Lines(c.cwd)
			if !ok {
				return answer{}
			}
		}
		switch {
		case p.Kind == shell.PartUnknown:
			gap = true
		case gap:
			after += pc.printed
		default:
			before += pc.printed
		}
		pieces[i] = pc
	}
	// The client has trimmed white space at the end of stdout, so it is trimmed here too.
	rest, ok := strings.CutPrefix(stdout, before)
	if !gap {
		rest, ok = "", strings.TrimRight(stdout, " \t\r\n") == strings.TrimRight(before, " \t\r\n")
	}
	middle := strings.TrimSuffix(rest, strings.TrimRight(after, " \t\r\n"))
	if !ok {
		return answer{}
	}
	if after != "" && (len(middle) == len(rest) || middle != "" && !strings.HasSuffix(middle, "\n")) {
		return answer{}
	}
	if text := before + middle + after; strings.TrimLeft(text, "\r\n") != text {
		return answer{} // stdout cannot begin with an empty line, because the client removes empty lines there
	}
	last := len(pieces) - 1 // becomes the last piece that printed anything but white space
	for last > 0 && strings.TrimSpace(pieces[last].printed) == "" && (pieces[last].Kind != shell.PartUnknown || strings.TrimSpace(middle) == "") {
		last--
	}
	word := c.readLosses()
	var out strings.Builder
	shortened, noted := false, false
	for i, p := range pieces {
		text := p.printed
		switch p.Kind {
		case shell.PartUnknown:
			if !noted {
				out.WriteString(middle)
			}
			noted = true
			continue
		case shell.PartShow:
			path, inside := c.relative(p.Show.Path(c.cwd))
			if !inside {
				break
			}
			if i == last {
				p.raw = strings.TrimRight(p.raw, " \t\r\n") // as the client delivers it
			}
			req := wire.ReadRequest{Reader: c.reader(), Path: []byte(path), Offset: p.first, Limit: p.count, Tool: "Bash", Pending: true, Context: word,
				Rewrite: &wire.Rewrite{Rendering: renderBash, StartLine: p.first, NumLines: p.count, Part: i + 1}}
			var ans wire.ReadAnswer
			word = "" // report it only once
			body, err := c.ask(ctx, wire.MRead, req, []byte(p.raw), &ans)
			if err != nil {
				return answer{}
			}
			// After a text without a newline at its end, our sentence would look like the rest of
			// that line.
			atLine := out.Len() == 0 || strings.HasSuffix(out.String(), "\n")
			if new, ok := shorter(p.Part, ans, string(body)); ok && len(new) < len(text) && atLine && !c.refuses(formShell) {
				text, shortened = new, true
			}
		}
		out.WriteString(text)
	}
	s := sent{toolUse: c.toolUse, own: outputDigest(stdout), new: outputDigest(out.String())}
	if !shortened {
		s.note(c) // the form stays empty, because nothing was replaced that the client could refuse
		return answer{}
	}
	s.form = formShell
	return answer{out: output{updated: withStdout(c.response, strings.TrimRight(out.String(), " \t\r\n"))}, sent: func() { s.note(c) }}
}

// shorter returns the text that replaces a part, if the daemon's answer allows a replacement.
func shorter(p shell.Part, ans wire.ReadAnswer, body string) (string, bool) {
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
		if p.Show.Numbered {
			body = shell.CatNumbers(body, ans.Start)
		}
		return ans.Note + "\n" + body, strings.HasPrefix(ans.Note, ourMark)
	}
	return "", false
}
