package hooks

import (
	"context"
	"os"

	"cachebro/store/wire"
)

// sessionStart registers the session and its process. After a compaction it also gives the model
// the recovery block. Any other event with an unknown id registers the session too.
func sessionStart(ctx context.Context, c *call) answer {
	c.pruneChains()
	known, err := c.reportStart(ctx)
	if err != nil {
		return answer{}
	}
	a := answer{out: output{quiet: true}}
	switch {
	case !known.Mounted:
		a.out.message = c.mount(ctx)
	case known.Trouble != "":
		a.out.message = troubleLine(known.Trouble)
	}
	if c.source != "compact" {
		return a
	}
	var r wire.Recovery
	if _, err := c.ask(ctx, wire.MRecovery, wire.SessionQuery{Session: c.session}, nil, &r); err != nil {
		return a
	}
	a.out.context = c.paidRecovery(ctx, r)
	return a
}

// mount mounts the project if the user has set it up to be mounted, for example after a reboot, and
// returns a line for the user. The client's own working directory is then the covered directory. Its
// tools use absolute paths or cd, so they go through the mount.
func (c *call) mount(ctx context.Context) string {
	if c.env.Mount == nil {
		return c.notMounted("")
	}
	mounted, err := c.env.Mount(ctx, c.root)
	switch {
	case err != nil:
		return c.notMounted(err.Error())
	case mounted:
		return mountedLine
	}
	return c.notMounted("")
}

// notMounted returns the line for the user that the project is not mounted, with the reason if
// mounting failed.
func (c *call) notMounted(why string) string {
	if why != "" {
		return " cachebro  not mounted (" + cutText(clean(why), 200) + "): shell changes cannot be undone; repeated reads still save tokens · cachebro doctor"
	}
	if c.dead() {
		return deadLine
	}
	if c.source != "startup" {
		return ""
	}
	return notMountedLine
}

func (c *call) tell(ctx context.Context, e wire.SessionEvent) (wire.SessionAnswer, error) {
	e.Session, e.Agent = c.session, c.agent
	e.Transcript, e.Cwd, e.Prompt = c.transcript, c.cwd, c.prompt
	e.Client, e.PID = c.clientName(), clientPID()
	var a wire.SessionAnswer
	_, err := c.ask(ctx, wire.MSession, e, nil, &a)
	return a, err
}

// spend reports a text that we add to the context. The daemon counts its tokens as overhead.
func (c *call) spend(ctx context.Context, tool, text string) {
	if text == "" {
		return
	}
	_, _ = c.ask(ctx, wire.MSpend, wire.Spend{Reader: c.reader(), Tool: tool, Kind: "overhead"}, []byte(text), nil)
}

// afford is spend, provided that the session has saved at least the text's tokens. It reports
// whether it has.
func (c *call) afford(ctx context.Context, tool, text string) bool {
	var a wire.SpendAnswer
	_, err := c.ask(ctx, wire.MSpend, wire.Spend{Reader: c.reader(), Tool: tool, Kind: "overhead", Credit: true}, []byte(text), &a)
	return err == nil && a.Booked
}

// sessionEnd removes the session's files. It prints nothing, because the client would show any
// output of this event as a failed hook.
func sessionEnd(ctx context.Context, c *call) answer {
	_, _ = c.tell(ctx, wire.SessionEvent{Event: "end"})
	c.chain().remove()
	for _, file := range []string{c.lostFile(), c.sentFile()} { // without these files, a session that is resumed later starts from scratch
		if file != "" {
			_ = os.Remove(file)
		}
	}
	return answer{}
}

// stop ends the prompt and shows the user one line about what was saved and changed since the last
// such line.
func stop(ctx context.Context, c *call) answer {
	if _, err := c.tell(ctx, wire.SessionEvent{Event: "stop", Given: tokensOf(len(c.reply))}); err != nil || c.agent != "" || c.opt.stopLine == "off" {
		return answer{}
	}
	c.countSchema(ctx)
	var m wire.Metrics
	if _, err := c.ask(ctx, wire.MMetrics, wire.MetricsQuery{Session: c.session, Delta: true}, nil, &m); err != nil {
		return answer{}
	}
	var r wire.Recovery
	if _, err := c.ask(ctx, wire.MRecovery, wire.SessionQuery{Session: c.session}, nil, &r); err != nil {
		return answer{}
	}
	if c.opt.stopLine != "always" && m.Saved <= 0 && r.Modified == 0 {
		return answer{}
	}
	// By the time the user reads the line, "last" may mean another session's prompt.
	which := "--prompt " + idArgument(r.Prompt)
	if r.Prompt == "" {
		which = "--session " + idArgument(c.session)
	}
	return answer{out: output{message: stopLine(m, r.Branch, r.Modified, which)}}
}

// subagentStart and subagentStop begin and end a separate reader, because a sub-agent does not see
// the texts that the main loop was shown.
func subagentStart(ctx context.Context, c *call) answer {
	if c.agent == "" {
		return answer{}
	}
	if a, err := c.tell(ctx, wire.SessionEvent{Event: "subagent-start"}); err == nil && a.TellOrigin {
		c.agent = "" // the prompt is the main loop's
		c.tellOrigin(ctx)
	}
	return answer{}
}

func subagentStop(ctx context.Context, c *call) answer {
	if c.agent == "" {
		return answer{}
	}
	_, _ = c.tell(ctx, wire.SessionEvent{Event: "subagent-stop"})
	return answer{}
}

// preCompact and postCompact begin new epochs, because a compaction removes the shown texts from
// the reader's context.
func preCompact(ctx context.Context, c *call) answer {
	_, _ = c.tell(ctx, wire.SessionEvent{Event: "precompact"})
	return answer{}
}

func postCompact(ctx context.Context, c *call) answer {
	_, _ = c.tell(ctx, wire.SessionEvent{Event: "postcompact"})
	return answer{}
}
