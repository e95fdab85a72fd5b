package daemon

import (
	"testing"

	"cachebro/store/leaf/event"
	"cachebro/store/leaf/spool"
	"cachebro/store/wire"
)

// The next daemon must know the processes that mountd has reported, and a tool call that was
// running when the daemon was replaced.
func TestAttributionOutlivesTheDaemon(t *testing.T) {
	p := newProject(t)
	p.start()
	h := p.dial("hook")
	p.append(&spool.Record{Kind: spool.KindProcess, Time: now(), PID: 4000001, Start: 77, PPID: 4000000, PStart: 70, Comm: "sed", Args: "sed -i"})
	p.append(&spool.Record{Kind: spool.KindProcess, Time: now(), PID: 4000000, Start: 70, Comm: "bash", Session: map[string]string{"CLAUDE_CODE_SESSION_ID": "S"}})
	ask[wire.SessionAnswer](p, h, wire.MSession, wire.SessionEvent{Session: "S", Event: "prompt", Prompt: "P7"})
	ask[wire.ToolBeginAnswer](p, h, wire.MToolBegin, wire.ToolCall{Session: "S", ToolUse: "use9", Tool: "Bash", Command: "sed -i"})
	p.log(h, wire.LogQuery{})
	p.end()
	p.start()
	c := p.dial("cli")
	p.closed(event.OpWrite, "f", []byte("x"), func(r *spool.Record) { r.PID, r.Start = 4000001, 77 })
	vs := p.log(c, wire.LogQuery{Session: "last"})
	if len(vs) != 1 || vs[0].Actor.Comm != "sed" || vs[0].Actor.Session != "S" || vs[0].Actor.Prompt != "P7" || vs[0].Actor.ToolCall != "use9" {
		t.Fatalf("%+v", vs)
	}
	if a := ask[wire.Actions](p, c, wire.MActions, wire.ActionsQuery{Prompt: "last"}); len(a.Actions) != 1 {
		t.Errorf("by prompt: %+v", a)
	}
	ask[wire.Empty](p, c, wire.MToolEnd, wire.ToolCall{Session: "S", ToolUse: "use9", Tool: "Bash", Failed: true})
	r := ask[wire.Recovery](p, c, wire.MRecovery, wire.SessionQuery{Session: "S"})
	if !r.Known || r.Failed != "sed -i" || len(r.Set.Files) != 1 || r.Set.Files[0].Edits != 1 || r.Modified != 1 {
		t.Errorf("recovery: %+v", r)
	}
}
