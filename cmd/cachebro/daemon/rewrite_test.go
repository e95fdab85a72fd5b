package daemon

import (
	"context"
	"strings"
	"testing"

	"cachebro/store/wire"
)

// When a client's own tool first reads a file, the text is pending and then committed. The second
// read gets a stub. The third read, right after the stub, gets the full text.
func TestRewriteOfABuiltInRead(t *testing.T) {
	p := newProject(t)
	text := strings.Repeat("a line of a file that is read by the client itself\n", 200)
	p.write("a.txt", text)
	p.start()
	h := p.dial("hook")
	id := wire.Reader{Session: "S"}
	ask[wire.SessionAnswer](p, h, wire.MSession, wire.SessionEvent{Session: "S", Event: "start"})
	read := func(use string) (wire.ReadAnswer, string) {
		t.Helper()
		id.ToolUse = use
		q := wire.ReadRequest{Reader: id, Path: []byte("a.txt"), Tool: "Read", Pending: true,
			Rewrite: &wire.Rewrite{Rendering: "cc-read/1", StartLine: 1, NumLines: 201}}
		var a wire.ReadAnswer
		body, err := h.Call(context.Background(), wire.MRead, q, []byte(text), &a)
		if err != nil {
			t.Fatal(err)
		}
		return a, string(body)
	}
	commit := func(use, text string) []string {
		return ask[wire.CommitAnswer](p, h, wire.MCommit, wire.Commit{Reader: wire.Reader{Session: "S"}, Calls: []wire.CommitCall{{ToolUse: use, Text: text}}}).Own
	}
	if a, _ := read("u1"); a.Kind != wire.ReadKeep {
		t.Fatalf("first: %+v", a)
	}
	commit("u1", text)
	a, body := read("u2")
	if a.Kind != wire.ReadUnchanged || len(body) > 300 {
		t.Fatalf("second: %+v, %q", a, body)
	}
	if own := commit("u2", body); len(own) != 0 {
		t.Errorf("refused: %v", own)
	}
	if a, _ := read("u3"); a.Kind != wire.ReadKeep {
		t.Fatalf("asked twice: %+v", a)
	}
	commit("u3", text)
	if a, _ := read("u4"); a.Kind != wire.ReadUnchanged {
		t.Fatalf("fourth: %+v", a)
	}
	if own := commit("u4", text); len(own) != 1 || own[0] != "u4" {
		t.Errorf("the client's own text in spite of a stub: %v", own)
	}
	m := ask[wire.Metrics](p, h, wire.MMetrics, wire.MetricsQuery{Session: "S"})
	if m.Calls != 4 || m.Cached != 1 || m.Saved <= 0 {
		t.Errorf("metrics: %+v", m)
	}
	ask[wire.SessionAnswer](p, h, wire.MSession, wire.SessionEvent{Session: "S", Event: "precompact"})
	if a, _ := read("u5"); a.Kind != wire.ReadKeep {
		t.Errorf("after a compaction: %+v", a)
	}
}

// The reader of an MCP call is determined by a tool call that the hook announced, not by the
// session that the server believes it runs in.
func TestReaderOfAnMCPCall(t *testing.T) {
	p := newProject(t)
	p.write("a.txt", strings.Repeat("text of some length that is worth a stub\n", 100))
	p.start()
	h, m := p.dial("hook"), p.dial("mcp")
	read := func(r wire.Reader, pending bool) wire.ReadAnswer {
		return ask[wire.ReadAnswer](p, m, wire.MRead, wire.ReadRequest{Reader: r, Path: []byte("a.txt"), Tool: "read_file", Pending: pending})
	}
	for range 3 {
		if a := read(wire.Reader{Session: "S"}, false); a.Kind != wire.ReadFull {
			t.Fatalf("by a session that only the environment names: %+v", a)
		}
	}
	for i, want := range []string{wire.ReadFull, wire.ReadUnchanged} {
		if a := read(wire.Reader{Connection: "c1"}, false); a.Kind != want {
			t.Errorf("connection, %d. read: %+v", i+1, a)
		}
	}
	if a := read(wire.Reader{Connection: "c2"}, false); a.Kind != wire.ReadFull {
		t.Errorf("another connection: %+v", a)
	}
	body, _ := m.Call(context.Background(), wire.MShow, wire.ShowQuery{Path: []byte("a.txt")}, nil, nil)
	ask[wire.ToolBeginAnswer](p, h, wire.MToolBegin, wire.ToolCall{Session: "S", Agent: "sub", ToolUse: "u1", Tool: "mcp__cachebro__read_file"})
	if a := read(wire.Reader{ToolUse: "u1"}, true); a.Kind != wire.ReadFull {
		t.Errorf("first read of the agent: %+v", a)
	}
	ask[wire.Empty](p, h, wire.MCommit, wire.Commit{Reader: wire.Reader{Session: "S", Agent: "sub"}, Calls: []wire.CommitCall{{ToolUse: "u1", Text: string(body)}}})
	ask[wire.ToolBeginAnswer](p, h, wire.MToolBegin, wire.ToolCall{Session: "S", Agent: "sub", ToolUse: "u2", Tool: "mcp__cachebro__read_file"})
	if a := read(wire.Reader{ToolUse: "u2"}, true); a.Kind != wire.ReadUnchanged {
		t.Errorf("second read of the agent: %+v", a)
	}
	ask[wire.ToolBeginAnswer](p, h, wire.MToolBegin, wire.ToolCall{Session: "S", ToolUse: "u3", Tool: "mcp__cachebro__read_file"})
	if a := read(wire.Reader{ToolUse: "u3"}, true); a.Kind != wire.ReadFull {
		t.Errorf("the main loop has not seen it: %+v", a)
	}
}

func TestStaleWarning(t *testing.T) {
	p := newProject(t)
	p.write("a.go", "one\ntwo\nthree\n")
	p.start()
	h := p.dial("hook")
	id := wire.Reader{Session: "S"}
	begin := func(use string) []string {
		return ask[wire.ToolBeginAnswer](p, h, wire.MToolBegin, wire.ToolCall{Session: "S", ToolUse: use, Tool: "Edit", Paths: [][]byte{[]byte("a.go")}}).Warnings
	}
	if w := begin("e1"); len(w) != 0 {
		t.Fatalf("never read: %q", w)
	}
	if a := ask[wire.ReadAnswer](p, h, wire.MRead, wire.ReadRequest{Reader: id, Path: []byte("a.go"), Tool: "read_file"}); a.Kind != wire.ReadFull {
		t.Fatal(a)
	}
	if w := begin("e2"); len(w) != 0 {
		t.Fatalf("not changed: %q", w)
	}
	p.write("a.go", "one\n2\nthree\n")
	w := begin("e3")
	if len(w) != 1 || !strings.HasPrefix(w[0], "cachebro: a.go was changed at ") || !strings.HasSuffix(w[0], "; line 2 differs. Editing is not blocked.") ||
		!strings.Contains(w[0], "by a process that bypassed the mount after you last read it at ") {
		t.Errorf("%q", w)
	}
}
