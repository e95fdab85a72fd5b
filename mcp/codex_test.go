package mcp

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"cachebro/store/wire"
)

// codex imitates Codex, which sends the ids of thread and call in _meta and whose hooks report the
// same calls to the daemon.
type codex struct {
	*peer
	hooks  *wire.Client
	thread string
	window int
	calls  int
	silent bool // the user has not reviewed the hooks, so they do not run
}

func newCodex(t *testing.T, l *live) *codex {
	t.Helper()
	p := connectRaw(t, Options{Root: l.dir, Dial: l.dial})
	p.call("initialize", map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "codex-mcp-client", "version": "0.169.0"}})
	c, err := wire.Dial(context.Background(), testPaths(l.base), wire.Hello{Version: "test", Client: "hook", Root: l.dir}, wire.Timeouts{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &codex{peer: p, hooks: c, thread: "01a2049c-b739"}
}

func (c *codex) ask(method string, params any) {
	c.t.Helper()
	if _, err := c.hooks.Call(context.Background(), method, params, nil, nil); err != nil {
		c.t.Fatal(err)
	}
}

// read makes a PreToolUse, the call, and a PostToolUse with the result.
func (c *codex) read(session string, args map[string]any) result {
	c.t.Helper()
	c.calls++
	id := fmt.Sprintf("call_%d", c.calls)
	if !c.silent {
		c.ask(wire.MToolBegin, wire.ToolCall{Session: session, ToolUse: id, Tool: "mcp__cachebro__read_file"})
	}
	r := c.toolMeta("read_file", args, map[string]any{"callId": id, "threadId": session, "sessionId": c.thread, "windowId": fmt.Sprintf("%s:%d", session, c.window), "progressToken": c.calls})
	if !c.silent {
		var texts []string
		for _, b := range r.Content {
			texts = append(texts, strings.TrimSuffix(b.Text, "\n"))
		}
		c.ask(wire.MCommit, wire.Commit{Reader: wire.Reader{Session: session}, Calls: []wire.CommitCall{{ToolUse: id, Text: strings.Join(texts, "\n")}}})
	}
	return r
}

// With Codex, the reader is the thread that its hooks announced. A new context window, which is all
// that is left after a compaction, has seen nothing. A thread that the main thread started has seen
// nothing either. Without hooks, no reader has seen anything. Answers are too short for Codex to cut
// them.
func TestCodex(t *testing.T) {
	text := ""
	for i := range 900 {
		text += fmt.Sprintf("var v%04d = %d // line %d of this\n", i, i, i)
	}
	l := liveProject(t, files{"small.go": text[:3000], "big.go": text})
	c := newCodex(t, l)
	small := map[string]any{"path": "small.go"}
	full := func(what string, r result) {
		t.Helper()
		if got := r.Content[0].Text; got != text[:3000] {
			t.Errorf("%s: %.80q", what, got)
		}
	}
	full("first", c.read(c.thread, small))
	if got := c.read(c.thread, small).Content[0].Text; !strings.HasPrefix(got, "[unchanged · ") {
		t.Errorf("second: %.80q", got)
	}
	full("another thread", c.read("01a2049c-child", small))
	c.window++
	full("a new window", c.read(c.thread, small))
	if got := c.read(c.thread, small).Content[0].Text; !strings.HasPrefix(got, "[unchanged · ") {
		t.Errorf("in it: %.80q", got)
	}
	c.silent = true
	full("without hooks", c.read(c.thread, small))
	c.silent = false

	got, offset := "", 1
	for offset > 0 {
		r := c.read(c.thread, map[string]any{"path": "big.go", "offset": offset})
		size := 0
		for _, b := range r.Content {
			size += len(b.Text)
		}
		if size > 9_500 {
			t.Fatalf("a page of %d bytes", size)
		}
		got, offset = got+r.Content[0].Text, 0
		if len(r.Content) > 1 {
			if _, err := fmt.Sscanf(r.Content[1].Text[strings.Index(r.Content[1].Text, "offset="):], "offset=%d", &offset); err != nil {
				t.Fatal(r.Content[1].Text)
			}
		}
	}
	if got != text {
		t.Error("the pages do not join to the file")
	}
	if got := c.read(c.thread, map[string]any{"path": "big.go"}).Content[0].Text; !strings.HasPrefix(got, "[unchanged · 900 lines · ") {
		t.Errorf("the whole again: %.80q", got)
	}

	// If a page can be answered with one line, its savings are counted, although a note about the
	// next page follows.
	c.window++
	c.read(c.thread, map[string]any{"path": "big.go"})
	before := c.metrics()
	if got := c.read(c.thread, map[string]any{"path": "big.go"}); len(got.Content) != 2 || !strings.HasPrefix(got.Content[0].Text, "[unchanged · lines 1-") {
		t.Errorf("a page again: %+v", got.Content)
	}
	if m := c.metrics(); m.Saved <= before.Saved {
		t.Errorf("%d saved before, %d with the page", before.Saved, m.Saved)
	}
}

func (c *codex) metrics() wire.Metrics {
	c.t.Helper()
	var m wire.Metrics
	if _, err := c.hooks.Call(context.Background(), wire.MMetrics, wire.MetricsQuery{Session: c.thread}, nil, &m); err != nil {
		c.t.Fatal(err)
	}
	return m
}

// The tokens of the tools' schemas are charged to the session of the thread that makes calls, and
// to no other.
func TestCodexPaysForTheSchema(t *testing.T) {
	l := liveProject(t, files{"a": strings.Repeat("a line\n", 300)})
	c := newCodex(t, l)
	for range 2 {
		c.call("tools/list", nil)
		c.read(c.thread, map[string]any{"path": "a"})
	}
	var own, all wire.Metrics
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		own = c.metrics()
		if _, err := c.hooks.Call(context.Background(), wire.MMetrics, wire.MetricsQuery{}, nil, &all); err != nil {
			t.Fatal(err)
		}
		if own.Overhead > 100 && own.Overhead == all.Overhead {
			return
		}
	}
	t.Errorf("the session pays %d, all of them %d", own.Overhead, all.Overhead)
}

// The client of this connection reports nothing about results. A long text may have been cut, so it
// counts as not shown. A text that is short enough for every client to deliver counts as shown.
func TestConnectionCountsSmallTexts(t *testing.T) {
	line := "a line of a text that is read\n"
	l := liveProject(t, files{"small": strings.Repeat(line, 200), "long": strings.Repeat(line, 400)})
	p := connect(t, Options{Root: l.dir, Reader: ReaderConnection, Dial: l.dial})
	for range 2 {
		if got := p.ok("read_file", map[string]any{"path": "long"}); got != strings.Repeat(line, 400) {
			t.Errorf("%.80q", got)
		}
	}
	p.ok("read_file", map[string]any{"path": "small"})
	if got := p.ok("read_file", map[string]any{"path": "small"}); !strings.HasPrefix(got, "[unchanged · ") {
		t.Errorf("%.80q", got)
	}
	if got := p.ok("read_file", map[string]any{"path": "long", "limit": 200}); got != strings.Repeat(line, 200) {
		t.Errorf("a part of what may have been cut: %.80q", got)
	}
}
