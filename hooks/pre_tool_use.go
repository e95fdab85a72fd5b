package hooks

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"cachebro/hooks/clients"
	"cachebro/store/leaf/text"
	"cachebro/store/wire"
)

// preToolUse reports the beginning of the tool call, so that everything written during the call is
// attributed to it. It warns about a file that somebody else changed since this reader saw it, and
// with --hold denies the first edit of it. It also denies an edit whose text is one of cachebro's
// answers.
func preToolUse(ctx context.Context, c *call) answer {
	c.tellQueued(ctx)
	// Only this event tells our MCP server which reader makes a call. If the transcript could not be
	// checked, the event is not reported, and the server sends full texts, as to an unknown reader.
	if isOurs(c.tool) && !c.checkChain(ctx) {
		return answer{}
	}
	if text := c.whyDenied(ctx); text != "" {
		c.spend(ctx, "own-words", text)
		return answer{out: output{context: text, deny: true}}
	}
	var a wire.ToolBeginAnswer
	t := c.toolCall()
	t.Hold = c.opt.hold && c.opt.client == ""
	if isOurs(c.tool) {
		t.Context = c.readLosses() // read it now, because the server asks the daemon after this event
	}
	if _, err := c.ask(ctx, wire.MToolBegin, t, nil, &a); err != nil {
		return answer{}
	}
	if a.TellOrigin {
		c.tellOrigin(ctx)
	}
	if a.Held != "" && t.Hold {
		text := cleanLines(a.Held)
		c.spend(ctx, "stale-write", text)
		return answer{out: output{context: text, deny: true}}
	}
	if len(a.Warnings) == 0 || c.opt.client != "" {
		return answer{}
	}
	lines := make([]string, len(a.Warnings))
	for i, w := range a.Warnings {
		lines[i] = clean(w)
	}
	text := strings.Join(lines, "\n")
	c.spend(ctx, "stale-write", text)
	return answer{out: output{context: text}}
}

// whyDenied returns why an edit by the client's tools is denied, or "". An edit is denied if its
// text is one of cachebro's answers.
func (c *call) whyDenied(ctx context.Context) string {
	given := c.newText()
	if len(text.OwnWords(given)) == 0 {
		return ""
	}
	name := c.input.str("file_path")
	if !filepath.IsAbs(name) {
		name = filepath.Join(c.cwd, name)
	}
	file, _ := os.ReadFile(name) // a missing file counts as empty
	lines := text.NewOwnWords(given, string(file))
	if len(lines) == 0 {
		return ""
	}
	var a wire.GivenAnswer
	if _, err := c.ask(ctx, wire.MGiven, wire.GivenQuery{Reader: c.reader(), Lines: lines}, nil, &a); err != nil || a.Line == "" {
		return ""
	}
	line, _, _ := strings.Cut(a.Line, "\n")
	return clean("cachebro: not written, because the text is cachebro's answer, not a file's text: " + line + " (" + text.OwnWordsHint + ")")
}

// newText returns what the client's Write or Edit puts into a file, or "" for other tools.
func (c *scene) newText() string {
	switch c.tool {
	case "Write":
		return c.input.str("content")
	case "Edit":
		for _, name := range []string{"new_string", "newString"} {
			if s := c.input.str(name); s != "" {
				return s
			}
		}
		return patchAdds(c.input)
	case "NotebookEdit":
		return c.input.str("new_source")
	}
	return ""
}

// patchAdds returns the lines that Codex's apply_patch adds.
func patchAdds(input fields) string {
	var b strings.Builder
	for _, name := range []string{"command", "input", "patch"} {
		patch := input.str(name)
		if !strings.Contains(patch, "*** Begin Patch") {
			continue
		}
		for line := range strings.Lines(patch) {
			if added, ok := strings.CutPrefix(line, "+"); ok {
				b.WriteString(added)
			}
		}
	}
	return b.String()
}

// toolCall describes the event's tool call to the daemon.
func (c *scene) toolCall() wire.ToolCall {
	t := wire.ToolCall{
		Session: c.session, Agent: c.agent, Prompt: c.prompt,
		ToolUse: c.toolUse, Tool: c.tool, PID: clientPID(),
		Command: c.recordable(c.input.str("command"), 4096),
	}
	if isOurs(c.tool) {
		t.Cwd = c.cwd
	}
	for _, name := range pathFields {
		if rel, ok := c.relative(c.input.str(name)); ok {
			t.Paths = append(t.Paths, []byte(rel))
		}
	}
	return t
}

// recordable returns the beginning of a prompt or command, or "" if the user does not want it
// recorded.
func (c *scene) recordable(text string, most int) string {
	if c.env.NoCommands {
		return ""
	}
	return cutText(text, most)
}

func isOurs(tool string) bool {
	return strings.HasPrefix(tool, "mcp__cachebro__") || strings.HasPrefix(tool, clients.PluginTools)
}

// cleanLines is clean for a text of several lines.
func cleanLines(s string) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	for i, l := range lines {
		lines[i] = clean(strings.TrimRight(l, "\r"))
	}
	return strings.Join(lines, "\n")
}
