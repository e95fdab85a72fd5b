package hooks

import (
	"context"
	"slices"

	"cachebro/hooks/shell"
	"cachebro/store/wire"
)

// postToolBatch commits what a batch of tool calls delivered. The event contains the texts that the
// model gets, after all hooks, cuts and cancellations. A text counts as shown only when this event
// confirms it. Results that show no file, and the text that the model itself wrote, only count as
// growth of the context.
func postToolBatch(ctx context.Context, c *call) answer {
	if c.alive != nil {
		if _, err := c.tell(ctx, wire.SessionEvent{Event: "prompt", Alive: c.alive, Checked: true}); err != nil {
			return answer{}
		}
	}
	printed := c.sentResults()
	commit := wire.Commit{Reader: wire.Reader{Session: c.session, Agent: c.agent}}
	for _, f := range c.calls {
		if f.toolUse == "" {
			continue
		}
		commit.Given += tokensOf(f.size)
		if s, ok := printed[f.toolUse]; ok && s.Saved != nil {
			if !c.countOutput(ctx, f, s) {
				commit.Given += tokensOf(len(f.text))
			}
			continue
		}
		switch {
		case f.tool == "Read", f.tool == "Bash" && showsFile(f.input.str("command")), isOurs(f.tool):
			commit.Calls = append(commit.Calls, wire.CommitCall{ToolUse: f.toolUse, Text: f.text, Took: c.deliveredText(f, printed)})
			continue
		case f.tool == "NotebookEdit":
			// This tool has no PostToolUse hook, so the end of its call is reported here.
			t := wire.ToolCall{Session: c.session, Agent: c.agent, Prompt: c.prompt, ToolUse: f.toolUse, Tool: f.tool, PID: clientPID()}
			_, _ = c.ask(ctx, wire.MToolEnd, t, nil, nil)
		}
		commit.Given += tokensOf(len(f.text))
	}
	if len(commit.Calls) == 0 && commit.Given == 0 {
		return answer{}
	}
	var a wire.CommitAnswer
	if _, err := c.ask(ctx, wire.MCommit, commit, nil, &a); err != nil || len(a.Own) == 0 {
		return answer{}
	}
	for id, s := range printed {
		if s.Form != "" && slices.Contains(a.Own, id) {
			c.noteRefusal(s.Form)
		}
	}
	return answer{}
}

// tokensOf estimates the number of tokens in a text of so many bytes, rather too high than too low.
func tokensOf(bytes int) int64 { return int64(bytes+2) / 3 }

func showsFile(command string) bool {
	_, one := shell.ParseShow(command)
	_, parts := shell.ParseParts(command)
	return one || parts
}

// deliveredText returns which text the model got, ours or the client's. For a client without
// Dialect.Requests, it does so only for an output of several parts, and otherwise returns "".
func (c *call) deliveredText(f finished, printed map[string]sent) string {
	if !c.opt.dialect().Requests {
		if f.tool != "Bash" {
			return ""
		}
		if _, ok := shell.ParseParts(f.input.str("command")); !ok {
			return ""
		}
	}
	s, ok := printed[f.toolUse]
	switch outputDigest(f.text) {
	case s.Own: // if nothing was shortened, s.New is the same
		return wire.TookOwn
	case s.New:
		return wire.TookOurs
	}
	if !ok {
		return "" // the hooks did not replace it
	}
	return wire.TookOther
}
