package hooks

import (
	"context"
	"strings"

	"cachebro/store/wire"
)

// postToolBatch commits what a batch of tool calls delivered: the event carries
// the text that the model gets, after all hooks, cuts and cancellations. Only
// then does the daemon count it as shown.
func postToolBatch(ctx context.Context, c *call) answer {
	commit := wire.Commit{Reader: wire.Reader{Session: c.session, Agent: c.agent}}
	for _, f := range c.calls {
		if f.toolUse == "" {
			continue
		}
		switch {
		case f.tool == "Read":
			commit.Calls = append(commit.Calls, readCommit(f))
		case f.tool == "Bash":
			if _, ok := parseShow(f.input.str("command")); ok {
				commit.Calls = append(commit.Calls, wire.CommitCall{ToolUse: f.toolUse, Text: f.text})
			}
		case isOurs(f.tool):
			commit.Calls = append(commit.Calls, wire.CommitCall{ToolUse: f.toolUse, Text: f.text})
		case f.tool == "NotebookEdit":
			// It has no PostToolUse of ours; this closes its window.
			t := wire.ToolCall{Session: c.session, Agent: c.agent, Prompt: c.prompt, ToolUse: f.toolUse, Tool: f.tool, PID: clientPID()}
			_, _ = c.ask(ctx, wire.MToolEnd, t, nil, nil)
		}
	}
	if len(commit.Calls) > 0 {
		_, _ = c.ask(ctx, wire.MCommit, commit, nil, nil)
	}
	return answer{}
}

// readCommit says whether the model got the client's own words for "unchanged";
// they differ from version to version, and no file's numbered text looks so.
func readCommit(f finished) wire.CommitCall {
	line := len(f.text) < 400 && !strings.Contains(f.text, "\t") && strings.Contains(strings.ToLower(f.text), "file unchanged since")
	return wire.CommitCall{ToolUse: f.toolUse, Text: f.text, Unchanged: line}
}
