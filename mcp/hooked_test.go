package mcp

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"cachebro/scripts/testkit/conformance"
	"cachebro/store/wire"
)

// hooked is a context window of a client that uses our server's tools and has hooks. The hooks tell
// the daemon what happens to the context. Their reports are sent over the socket, as cachebro hook
// sends them.
type hooked struct {
	s       *subject
	call    metaCaller
	hooks   Caller
	session string
	agent   string
	calls   int
}

type metaCaller func(name string, args, meta map[string]any) result

// withHooks is a subject whose readers are hooked.
type withHooks struct {
	*subject
	hooks Caller
	dial  func(testing.TB) metaCaller
	n     int
}

func newWithHooks(t *testing.T, l *live, dial func(testing.TB) metaCaller, unknown func(testing.TB) toolCaller) *withHooks {
	t.Helper()
	c, err := wire.Dial(context.Background(), testPaths(l.base), wire.Hello{Version: "test", Client: "hook", Root: l.dir}, wire.Timeouts{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &withHooks{subject: &subject{live: l, unknown: unknown}, hooks: c, dial: dial}
}

func (s *withHooks) Reader(t testing.TB) conformance.Reader {
	s.n++
	h := &hooked{s: s.subject, call: s.dial(t), hooks: s.hooks, session: fmt.Sprint("session-", s.n)}
	h.Event(t, "start")
	return h
}

func (h *hooked) ask(t testing.TB, method string, params any) {
	t.Helper()
	if _, err := h.hooks.Call(context.Background(), method, params, nil, nil); err != nil {
		t.Fatal(err)
	}
}

// id returns a tool use id of this context, because the suite's own names repeat.
func (h *hooked) id(use string) string { return h.session + "/" + h.agent + "/" + use }

// begin makes a PreToolUse, and then the call itself.
func (h *hooked) begin(t testing.TB, use, tool string, args map[string]any) result {
	t.Helper()
	id := h.id(use)
	h.ask(t, wire.MToolBegin, wire.ToolCall{Session: h.session, Agent: h.agent, ToolUse: id, Tool: "mcp__cachebro__" + tool})
	return h.call(tool, args, map[string]any{toolUseKey: id})
}

func (h *hooked) next() string {
	h.calls++
	return fmt.Sprint("call-", h.calls)
}

func (h *hooked) ReadPending(t testing.TB, use string, q conformance.Read) conformance.Answer {
	res := h.begin(t, use, "read_file", map[string]any{"path": q.Path, "offset": q.Offset, "limit": q.Limit, "force": q.Force, "diff_offset": q.DiffOffset})
	if res.IsError {
		return conformance.Answer{Err: errors.New(res.Content[0].Text)}
	}
	return conformance.Answer{Text: res.Content[0].Text}
}

// Commit makes a PostToolBatch.
func (h *hooked) Commit(t testing.TB, use, text string) {
	h.ask(t, wire.MCommit, wire.Commit{Reader: wire.Reader{Session: h.session, Agent: h.agent}, Calls: []wire.CommitCall{{ToolUse: h.id(use), Text: text}}})
}

func (h *hooked) Read(t testing.TB, q conformance.Read) conformance.Answer {
	use := h.next()
	a := h.ReadPending(t, use, q)
	h.Commit(t, use, a.Text)
	return a
}

func (h *hooked) Edit(t testing.TB, path, old, new string) {
	use := h.next()
	res := h.begin(t, use, "edit_file", map[string]any{"path": path, "old_string": old, "new_string": new})
	if res.IsError {
		t.Fatal(res.Content[0].Text)
	}
	h.Commit(t, use, res.Content[0].Text)
}

func (h *hooked) Event(t testing.TB, name string) {
	h.ask(t, wire.MSession, wire.SessionEvent{Session: h.session, Agent: h.agent, Event: name})
}

func (h *hooked) Alive(t testing.TB, uses []string, readable bool) {
	e := wire.SessionEvent{Session: h.session, Event: "prompt", Checked: true}
	if readable {
		e.Alive = []string{}
		for _, u := range uses {
			e.Alive = append(e.Alive, h.id(u))
		}
	}
	h.ask(t, wire.MSession, e)
}

func (h *hooked) Agent(t testing.TB, id string) conformance.Reader {
	sub := &hooked{s: h.s, call: h.call, hooks: h.hooks, session: h.session, agent: id}
	sub.Event(t, "subagent-start")
	return sub
}
