package hooks

import (
	"context"
	"errors"
	"sync"

	"cachebro/store/wire"
)

// A session may work in several projects: after --add-dir, after a move to a worktree, or when a
// command wrote elsewhere. The daemon of the event's project answers the event. The daemons of the
// other projects get it too, so that each knows the session's prompts and calls, and which texts a
// context lost.

// tellOthers reports an event to the daemons of the session's other projects, and adds the event's
// project to the session's projects. wait waits for the daemons.
func tellOthers(ctx context.Context, env Env, opt options, ev event) (wait func()) {
	tell := reporters[ev.name]
	if tell == nil || ev.session == "" {
		return func() {}
	}
	root, ok := findRoot(env, ev)
	if !ok {
		return func() {}
	}
	_ = env.Paths.JoinSession(ev.session, root) // after an error, the other projects learn of the session later
	if run := env.Getenv("CACHEBRO_SESSION"); run != "" && run != ev.session {
		_ = env.Paths.NestSession(run, ev.session) // after an error, changes belong to run's session and to no prompt
	}
	if ev.file() != "" && !isOurs(ev.tool) {
		return func() {} // a call that names its file concerns only that file's project
	}
	var all sync.WaitGroup
	for _, other := range env.Paths.SessionProjects(ev.session) {
		if other == root {
			continue
		}
		all.Go(func() {
			c := &call{scene: scene{env: env, opt: opt, event: ev, root: other}}
			if _, ok := within(ctx, env.limit(workWithin), func(ctx context.Context) bool { c.tellOtherProjects(ctx, tell); return true }); !ok {
				c.markLost()
			}
		})
	}
	return all.Wait
}

func (c *call) tellOtherProjects(ctx context.Context, tell func(context.Context, *call)) {
	c.breaker = breaker{file: breakerFile(c.env.Paths, c.root), now: c.env.Now}
	if c.breaker.open() {
		c.markLost()
		return
	}
	client, err := c.env.Dial(ctx, c.root)
	if errors.Is(err, wire.ErrNoDaemon) && !changesContext[c.name] {
		return // no daemon runs; the next one asks our daemon for what it needs
	}
	if err != nil {
		c.failed(err)
		return
	}
	defer client.Close()
	c.client = client
	if c.tellLost(ctx) {
		tell(ctx, c)
	}
}

// changesContext are the events that may change what a context holds.
var changesContext = map[string]bool{"SessionStart": true, "SessionEnd": true, "PreCompact": true, "PostCompact": true}

// reporters holds, for each event, the function that reports it to the session's other projects.
var reporters = map[string]func(context.Context, *call){
	"SessionStart":       reportStart,
	"UserPromptSubmit":   reportPrompt,
	"PreToolUse":         reportCall,
	"PostToolUse":        reportResult,
	"PostToolUseFailure": reportResult,
	"PostToolBatch":      func(ctx context.Context, c *call) { postToolBatch(ctx, c) },
	"PreCompact":         func(ctx context.Context, c *call) { preCompact(ctx, c) },
	"PostCompact":        func(ctx context.Context, c *call) { postCompact(ctx, c) },
	"SubagentStart":      func(ctx context.Context, c *call) { subagentStart(ctx, c) },
	"SubagentStop":       func(ctx context.Context, c *call) { subagentStop(ctx, c) },
	"Stop":               reportStop,
	"SessionEnd":         func(ctx context.Context, c *call) { sessionEnd(ctx, c) },
}

func reportStart(ctx context.Context, c *call) {
	_, err := c.tell(ctx, wire.SessionEvent{Event: "start", Source: c.source})
	if c.transcript != "" && c.opt.client == "" {
		c.chain().begin(c.transcript)
		c.contextSize().begin(c.record(), err == nil && c.source == "compact")
	}
}

func reportPrompt(ctx context.Context, c *call) {
	_, _ = c.tell(ctx, wire.SessionEvent{Event: "prompt", Text: c.said(c.text, 400), Given: tokensOf(len(c.text)), Beside: true})
}

func reportStop(ctx context.Context, c *call) {
	_, _ = c.tell(ctx, wire.SessionEvent{Event: "stop", Given: tokensOf(len(c.reply))})
}

func reportCall(ctx context.Context, c *call) {
	c.tellQueued(ctx)
	if isOurs(c.tool) && !c.checkChain(ctx) {
		return
	}
	t := c.toolCall()
	if isOurs(c.tool) {
		t.Context = c.look()
	}
	_, _ = c.ask(ctx, wire.MToolBegin, t, nil, nil)
}

func reportResult(ctx context.Context, c *call) {
	if c.tool != "Bash" {
		return
	}
	t := c.toolCall()
	t.Background = c.response.str("backgroundTaskId") != ""
	t.Failed = c.name == "PostToolUseFailure"
	_, _ = c.ask(ctx, wire.MToolEnd, t, nil, nil)
}
