package hooks

import (
	"context"
	"strings"

	"cachebro/store/leaf/text"
	"cachebro/store/wire"
)

// postToolUse reports the end of the tool call and, if possible, shortens the delivered result.
func postToolUse(ctx context.Context, c *call) answer {
	switch d := c.opt.dialect(); {
	case d.Requests:
		return c.plainResult(ctx)
	case d.Record && c.tool == "Bash":
		_, _ = c.ask(ctx, wire.MToolEnd, c.toolCall(), nil, nil)
		if !showsFile(c.input.str("command")) || !c.readRecord(ctx) {
			return answer{}
		}
		return c.plainText(c.shellResult(ctx))
	case c.opt.client != "":
		return c.otherClient(ctx)
	}
	switch c.tool {
	case "Read":
		return c.readResult(ctx)
	case "Bash":
		t := c.toolCall()
		// A background command goes on writing after the call has ended. These writes belong to the
		// call too.
		t.Background = c.response.str("backgroundTaskId") != ""
		_, _ = c.ask(ctx, wire.MToolEnd, t, nil, nil)
		return c.shellResult(ctx)
	case "Grep":
		return c.searchOutput(ctx)
	case "Glob", "LS":
		return c.listOutput(ctx)
	case "Edit", "Write", "NotebookEdit":
		_, _ = c.ask(ctx, wire.MToolEnd, c.toolCall(), nil, nil)
		c.ownEdit(ctx)
	}
	return answer{}
}

// plainResult is postToolUse for a client whose plugin replaces a result with plain text.
func (c *call) plainResult(ctx context.Context) answer {
	switch c.tool {
	case "Read":
		return c.plainText(c.readResult(ctx))
	case "Bash":
		_, _ = c.ask(ctx, wire.MToolEnd, c.toolCall(), nil, nil)
		if showsFile(c.input.str("command")) {
			return c.plainText(c.shellResult(ctx))
		}
	case "Edit", "Write":
		_, _ = c.ask(ctx, wire.MToolEnd, c.toolCall(), nil, nil)
		c.ownEdit(ctx)
	}
	return answer{}
}

// plainText turns an answer into plain text and records both texts, to compare them with the
// client's later report of what the model got.
func (c *call) plainText(a answer) answer {
	s := sent{ToolUse: c.toolUse, Own: outputDigest(c.own), New: outputDigest(c.own)}
	if a.out.updated != nil {
		if text := asText(c.event, a.out.updated, a.out.context); text != "" && len(text) < len(c.own) {
			s.New = outputDigest(text)
			return answer{out: output{result: text}, sent: func() { s.note(c) }}
		}
	}
	s.note(c)
	return answer{}
}

// postToolUseFailure reports the end of a failed call. A Bash command that fails may still have
// written files.
func postToolUseFailure(ctx context.Context, c *call) answer {
	switch c.tool {
	case "Bash", "Edit", "Write", "NotebookEdit":
		t := c.toolCall()
		t.Failed = true
		_, _ = c.ask(ctx, wire.MToolEnd, t, nil, nil)
		if c.dead() {
			return answer{out: output{context: c.deadText(ctx)}}
		}
	}
	return answer{}
}

// codexCut is the size in bytes above which Codex may cut a result. A longer result does not count
// as shown, because the event contains the whole result even if the model gets only a part.
const codexCut = 9_500

// otherClient reports the end of another client's call. For a call to our own server, Codex sends
// the hook the result and the call id that the server got.
func (c *call) otherClient(ctx context.Context) answer {
	t := c.toolCall()
	if c.opt.client != "codex" || !isOurs(c.tool) {
		t.Given = tokensOf(c.size)
		_, _ = c.ask(ctx, wire.MToolEnd, t, nil, nil)
		return answer{}
	}
	_, _ = c.ask(ctx, wire.MToolEnd, t, nil, nil)
	text := joinBlocks(c.response["content"], "\n") // the text and its note are two blocks
	if len(text) > codexCut {
		text = "" // Codex may cut it and does not say where
	}
	commit := wire.Commit{Reader: wire.Reader{Session: c.session, Agent: c.agent}, Given: tokensOf(c.size - len(text)),
		Calls: []wire.CommitCall{{ToolUse: c.toolUse, Text: text}}}
	_, _ = c.ask(ctx, wire.MCommit, commit, nil, nil)
	return answer{}
}

// ownEdit tells the daemon which lines the model supplied through the client's Edit or Write, so
// that the model's own edit is not reported later as a change. The new text is computed from the
// client's report, not read from the file. If something else was written too, the file has another
// hash, and the daemon records nothing.
func (c *call) ownEdit(ctx context.Context) {
	path, ok := c.relative(c.input.str("file_path"))
	if !ok || c.toolUse == "" {
		return
	}
	e := wire.OwnEdit{Reader: c.reader(), Path: []byte(path), Tool: c.tool}
	var after string
	switch c.tool {
	case "Edit":
		before := c.response.str("originalFile")
		e.Old = c.response.str("oldString")
		e.New = c.response.str("newString")
		e.All = c.response.truth("replaceAll")
		if before == "" || e.Old == "" || c.response.truth("userModified") {
			return
		}
		n := 1
		if e.All {
			n = -1
		} else if strings.Count(before, e.Old) != 1 {
			return
		}
		after = strings.Replace(before, e.Old, e.New, n)
		e.Before = text.Hash([]byte(before))
	case "Write":
		after = c.response.str("content")
		if after == "" || after != c.input.str("content") || c.response.truth("userModified") {
			return
		}
		e.New = after
	default:
		return
	}
	_, _ = c.ask(ctx, wire.MOwnEdit, e, []byte(after), nil)
}
