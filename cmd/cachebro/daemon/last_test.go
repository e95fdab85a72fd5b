package daemon

import (
	"errors"
	"os"
	"strings"
	"testing"

	"cachebro/store/leaf/event"
	"cachebro/store/leaf/spool"
	"cachebro/store/wire"
)

// "last" is the newest session with changes, even if a wrapper or a session that only reads began
// later. If the newest prompt changed nothing, the answer says so and offers the prompt before it
// with its id.
func TestLastHasChanges(t *testing.T) {
	p := newProject(t)
	p.start()
	h, c := p.dial("hook"), p.dial("cli")
	fails := func(method string, q any) error {
		_, err := c.Call(t.Context(), method, q, nil, nil)
		return err
	}
	if err := fails(wire.MPlan, wire.PlanRequest{Kind: "undo", Session: "last", DryRun: true}); !errors.Is(err, wire.ErrNotFound) || !strings.Contains(wire.Hint(err), "cachebro run") {
		t.Errorf("no session: %v (%s)", err, wire.Hint(err))
	}
	if err := fails(wire.MPlan, wire.PlanRequest{Kind: "undo", Prompt: "last", DryRun: true}); !errors.Is(err, wire.ErrNotFound) || !strings.Contains(wire.Hint(err), "--since") {
		t.Errorf("no prompt: %v (%s)", err, wire.Hint(err))
	}
	told := func(session, name, prompt string) {
		ask[wire.SessionAnswer](p, h, wire.MSession, wire.SessionEvent{Session: session, Event: name, Prompt: prompt, Client: "claude"})
	}
	n := uint32(4000000)
	writes := func(session, path string) { // the writes belong to the session's newest prompt
		n++
		p.append(&spool.Record{Kind: spool.KindProcess, Time: now(), PID: n, Start: 70, Comm: "sed", Session: map[string]string{"CLAUDE_CODE_SESSION_ID": session}})
		p.closed(event.OpWrite, path, []byte(path+session), func(r *spool.Record) { r.PID, r.Start = n, 70 })
		if vs := p.log(c, wire.LogQuery{Session: session}); len(vs) == 0 || vs[0].Actor.Prompt == "" {
			t.Fatalf("%s wrote %+v", session, vs)
		}
	}
	told("wrapper", "start", "")
	if err := fails(wire.MPlan, wire.PlanRequest{Kind: "undo", Session: "last", DryRun: true}); !errors.Is(err, wire.ErrNotFound) || !strings.HasPrefix(err.Error(), "no session has changed anything") {
		t.Errorf("sessions without changes: %v (%s)", err, wire.Hint(err))
	}
	told("S", "start", "")
	told("S", "prompt", "P1")
	writes("S", "a")
	// A client reports its own commands (/compact, /exit) as it reports prompts.
	for _, name := range []string{"stop", "precompact", "postcompact", "start", "end"} {
		told("S", name, "of "+name)
	}
	told("wrapper", "end", "")
	told("reader", "start", "")
	// The files do not exist on disk, so the undo reports them as lost.
	undo := func(q wire.PlanRequest) (title, path string) {
		t.Helper()
		q.Kind, q.DryRun = "undo", true
		plan := ask[wire.Plan](p, c, wire.MPlan, q)
		if len(plan.Lost) != 1 {
			t.Fatalf("%+v", plan)
		}
		return plan.Title, string(plan.Lost[0].Path)
	}
	if title, path := undo(wire.PlanRequest{Session: "last"}); path != "a" || !strings.Contains(title, "S (claude, from ") {
		t.Errorf("session: %q %s", title, path)
	}
	if title, path := undo(wire.PlanRequest{Prompt: "last"}); path != "a" || !strings.Contains(title, "P1 of ") {
		t.Errorf("prompt: %q %s", title, path)
	}
	if vs := p.log(c, wire.LogQuery{Session: "last"}); len(vs) != 1 {
		t.Errorf("log: %+v", vs)
	}
	told("S", "prompt", "P2") // only reads
	err := fails(wire.MPlan, wire.PlanRequest{Kind: "undo", Prompt: "last", DryRun: true})
	if !errors.Is(err, wire.ErrNotFound) || !strings.Contains(err.Error(), "changed nothing") || !strings.Contains(wire.Hint(err), "cachebro undo --prompt P1 ") {
		t.Errorf("an empty prompt: %v (%s)", err, wire.Hint(err))
	}
	// The command runs within P2 itself, as a client's undo command does.
	asks := func(session string) { // from now on this process works for the session
		ask[wire.SessionAnswer](p, h, wire.MSession, wire.SessionEvent{Session: session, Event: "stop", Client: "claude", PID: os.Getpid()})
	}
	asks("S")
	if title, path := undo(wire.PlanRequest{Prompt: "last"}); path != "a" || !strings.Contains(title, "P1 of ") {
		t.Errorf("asked by the prompt after it: %q %s", title, path)
	}
	asks("reader")
	if err := fails(wire.MPlan, wire.PlanRequest{Kind: "undo", Prompt: "last", DryRun: true}); !errors.Is(err, wire.ErrNotFound) {
		t.Errorf("asked by another session: %v", err)
	}
	// The event that announces P3 was lost, so P3 is first named by a tool call. The sub-agent of
	// P1 is still working.
	ask[wire.ToolBeginAnswer](p, h, wire.MToolBegin, wire.ToolCall{Session: "S", Prompt: "P3", ToolUse: "use3", Tool: "Bash"})
	writes("S", "b")
	ask[wire.ToolBeginAnswer](p, h, wire.MToolBegin, wire.ToolCall{Session: "S", Agent: "sub", Prompt: "P1", ToolUse: "use4", Tool: "Bash"})
	if title, path := undo(wire.PlanRequest{Prompt: "last"}); path != "b" || !strings.Contains(title, "P3") {
		t.Errorf("the next prompt: %q %s", title, path)
	}
}
