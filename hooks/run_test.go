package hooks

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"cachebro/store/wire"
)

const readEvent = `{"session_id":"s1","prompt_id":"p1","transcript_path":"","cwd":"PROJ","hook_event_name":"PostToolUse",
"tool_name":"Read","tool_input":{"file_path":"PROJ/a.go"},"tool_use_id":"t1",
"tool_response":{"type":"text","file":{"filePath":"PROJ/a.go","content":"one\ntwo\n","numLines":3,"startLine":1,"totalLines":3}}}`

// Whatever the input is, the status is 0 and nothing is printed.
func TestSilence(t *testing.T) {
	huge := `{"hook_event_name":"PostToolUse","session_id":"s","x":"` + strings.Repeat("y", maxInput) + `"}`
	tests := map[string]string{
		"empty":          "",
		"not JSON":       "hello",
		"cut JSON":       readEvent[:100],
		"array":          "[1,2]",
		"null":           "null",
		"unknown event":  `{"hook_event_name":"MoonPhase","session_id":"s1"}`,
		"no session":     `{"hook_event_name":"Stop"}`,
		"wrong types":    `{"hook_event_name":"PostToolUse","session_id":7,"tool_input":[],"tool_response":"x"}`,
		"no response":    `{"hook_event_name":"PostToolUse","session_id":"s1","tool_name":"Read","tool_use_id":"t","tool_input":{"file_path":"PROJ/a"}}`,
		"outside":        strings.ReplaceAll(readEvent, "PROJ/a.go", "/etc/passwd"),
		"traversal":      strings.ReplaceAll(readEvent, "PROJ/a.go", "PROJ/../secret"),
		"image":          strings.ReplaceAll(readEvent, `"type":"text"`, `"type":"image"`),
		"capped":         strings.ReplaceAll(readEvent, `"totalLines":3`, `"totalLines":3,"truncatedByTokenCap":true`),
		"invalid UTF-8":  strings.ReplaceAll(readEvent, "one", "\xff\xfe"),
		"too large":      huge,
		"batch of words": `{"hook_event_name":"PostToolBatch","session_id":"s1","tool_calls":"none"}`,
	}
	p := newProject(t)
	p.serve(nil) // answers every request with an empty object
	for name, event := range tests {
		t.Run(name, func(t *testing.T) {
			p.t = t
			silent(t, p.run(event))
		})
	}
}

func TestUnknownFieldsAreIgnored(t *testing.T) {
	p := newProject(t)
	p.serve(answers{wire.MRead: keep})
	silent(t, p.run(strings.Replace(readEvent, `{"session_id"`, `{"novelty":{"a":[1]},"session_id"`, 1)))
	var req wire.ReadRequest
	if body := p.asked(wire.MRead, &req); body != "one\ntwo\n" || string(req.Path) != "a.go" || !req.Pending ||
		req.Reader != (wire.Reader{Session: "s1", ToolUse: "t1"}) || *req.Rewrite != (wire.Rewrite{Rendering: "cc-read/1", StartLine: 1, NumLines: 3}) {
		t.Errorf("asked %+v %+v with %q", req, req.Rewrite, body)
	}
}

func keep(*wire.Request) (any, []byte, error) {
	return wire.ReadAnswer{Kind: wire.ReadKeep}, nil, nil
}

func TestNoDaemon(t *testing.T) {
	p := newProject(t)
	silent(t, p.run(readEvent))
	if p.trippedBreaker() {
		t.Error("a missing daemon counted as a time-out")
	}
}

func (p *project) trippedBreaker() bool {
	_, err := os.Stat(breakerFile(p.paths, p.root))
	return err == nil
}

func TestNoProject(t *testing.T) {
	p := newProject(t)
	p.envs["CLAUDE_PROJECT_DIR"] = t.TempDir()
	silent(t, p.run(strings.ReplaceAll(readEvent, "PROJ", t.TempDir())))
}

// A daemon that hangs costs one time-out, and then nothing for 30 s: of 20 tool calls, one
// connects. (scripts/hooktime measures how long they take.)
func TestHungDaemon(t *testing.T) {
	p := newProject(t)
	p.hang()
	for range 20 {
		silent(t, p.run(readEvent))
	}
	if n := p.connections(); n != 1 {
		t.Errorf("20 hooks connected %d times", n)
	}
	if !p.trippedBreaker() {
		t.Error("no marker after a time-out")
	}
	p.now = p.now.Add(31 * time.Second)
	silent(t, p.run(readEvent))
	if n := p.connections(); n != 2 {
		t.Errorf("after 30 s nobody tried again: %d connections", n)
	}
}

// An answer that comes too late, or an error, counts as no answer.
func TestSlowAndFailingAnswers(t *testing.T) {
	p := newProject(t)
	p.patient = false
	p.serve(answers{
		wire.MSession: func(*wire.Request) (any, []byte, error) { return nil, nil, errors.New("broken") },
		wire.MRead: func(*wire.Request) (any, []byte, error) {
			time.Sleep(400 * time.Millisecond)
			return wire.ReadAnswer{Kind: wire.ReadSpan, Start: 1, NumLines: 1}, []byte("x"), nil
		},
	})
	silent(t, p.run(readEvent)) // the check of the transcript fails, so the text is shown as it is
	silent(t, p.run(strings.NewReplacer(`"s1"`, `"s2"`, `"tool_name"`, `"agent_id":"sub","tool_name"`).Replace(readEvent)))
	if !p.trippedBreaker() {
		t.Error("no marker after a late answer")
	}
}

// The end of a session prints nothing, however much the session has saved, because the client shows
// any output of this event as a failed hook.
func TestSessionEndIsSilent(t *testing.T) {
	p := newProject(t)
	p.serve(nil)
	silent(t, p.run(`{"hook_event_name":"SessionEnd","session_id":"s1","reason":"other"}`))
	if m := p.methods(); m != "session" {
		t.Errorf("asked %s", m)
	}
}

// A panic of ours must not become status 2, which would block the tool call.
func TestPanic(t *testing.T) {
	saved := handlers["Stop"]
	handlers["Stop"] = nil
	t.Cleanup(func() { handlers["Stop"] = saved })
	p := newProject(t)
	p.serve(nil)
	silent(t, p.run(`{"hook_event_name":"Stop","session_id":"s1"}`))
	if _, ok := within(t.Context(), time.Minute, func(context.Context) int { panic("x") }); ok {
		t.Error("a panic counted as an answer")
	}
}
