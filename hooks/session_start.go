package hooks

import (
	"context"

	"cachebro/store/wire"
)

// sessionStart registers the session and its process, and gives the model its
// bearings back after a compaction. Registering is a convenience: any event
// with an unknown id registers it too.
func sessionStart(ctx context.Context, c *call) answer {
	c.pruneChains()
	known, err := c.tell(ctx, wire.SessionEvent{Event: "start", Source: c.source})
	if c.transcript != "" && c.opt.client == "" {
		c.chain().begin(c.transcript)
		c.contextSize().begin(c.record(), err == nil && c.source == "compact")
	}
	if err != nil {
		return answer{}
	}
	a := answer{out: output{quiet: true}}
	if !known.Mounted {
		a.out.message = c.mount(ctx)
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

// mount mounts a set-up project again (after a reboot, for example) and returns what
// the user should know. The client's own process stands in the directory below the
// mount then; its tools use absolute paths or cd, and so go through the mount.
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

// notMounted is said once, when a session begins, and again where something
// went wrong.
func (c *call) notMounted(why string) string {
	if why != "" {
		return " cachebro  not mounted (" + cutText(clean(why), 200) + "): shell changes cannot be undone; reads still save · cachebro doctor"
	}
	if c.dead() {
		return deadLine
	}
	if c.source != "startup" {
		return ""
	}
	return notMountedLine
}

// tell sends a session event with what every event carries.
func (c *call) tell(ctx context.Context, e wire.SessionEvent) (wire.SessionAnswer, error) {
	e.Session, e.Agent, e.AgentType = c.session, c.agent, c.agentType
	e.Transcript, e.Cwd, e.Prompt = c.transcript, c.cwd, c.prompt
	e.Client, e.PID = c.opt.client, clientPID()
	if e.Client == "" {
		e.Client = clientName(c.env.Getenv("AI_AGENT"))
	}
	var a wire.SessionAnswer
	_, err := c.ask(ctx, wire.MSession, e, nil, &a)
	return a, err
}

// spend enters text that we inject into the ledger as overhead; the daemon
// counts its tokens.
func (c *call) spend(ctx context.Context, tool, text string) {
	if text == "" {
		return
	}
	_, _ = c.ask(ctx, wire.MSpend, wire.Spend{Reader: c.reader(), Tool: tool, Kind: "overhead"}, []byte(text), nil)
}

// afford has the text entered as overhead if the session has saved its price, and
// reports whether it has.
func (c *call) afford(ctx context.Context, tool, text string) bool {
	var a wire.SpendAnswer
	_, err := c.ask(ctx, wire.MSpend, wire.Spend{Reader: c.reader(), Tool: tool, Kind: "overhead", Credit: true}, []byte(text), &a)
	return err == nil && a.Booked
}
