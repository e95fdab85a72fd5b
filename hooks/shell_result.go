package hooks

import (
	"context"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"cachebro/store/wire"
)

// ourMark begins every sentence of ours that a model reads.
const ourMark = "cachebro: "

// shellResult handles a Bash command that does nothing but show one file.
func (c *call) shellResult(ctx context.Context) answer {
	if parts, ok := parseParts(c.input.str("command")); ok {
		return c.partsResult(ctx, parts)
	}
	show, ok := parseShow(c.input.str("command"))
	if !ok || c.toolUse == "" || c.input.truth("run_in_background") {
		return answer{}
	}
	path, ok := c.relative(show.path(c.cwd))
	if !ok {
		return answer{}
	}
	stdout, ok := plainOutput(c.response)
	if !ok {
		return answer{}
	}
	req := wire.ReadRequest{
		Reader: c.reader(), Path: []byte(path), Offset: show.first, Tool: "Bash", Pending: true,
		Rewrite: &wire.Rewrite{Rendering: renderBash, StartLine: show.first},
	}
	switch {
	case show.tail > 0:
		req.Rewrite.StartLine, req.Rewrite.NumLines = 0, show.tail
	case show.last > 0:
		req.Limit = show.last - show.first + 1
		req.Rewrite.NumLines = req.Limit
	}
	if c.opt.noRewrite || !c.checkChain(ctx) {
		c.showOnly(ctx, req, stdout)
		return answer{}
	}
	var ans wire.ReadAnswer
	req.Context = c.look()
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

// plainOutput returns the output of a command that succeeded without a word on
// stderr and was delivered whole.
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

// withStdout is the client's result with another stdout: a result that lacks a
// field of the tool's shape would be ignored.
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
