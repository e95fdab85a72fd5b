package hooks

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cachebro/store/wire"
)

// record is the record of a thread (the rollout), as Codex writes it.
type record struct {
	t    *testing.T
	file string
}

func (r record) add(kind string, payload map[string]any) {
	r.t.Helper()
	b, err := json.Marshal(map[string]any{"timestamp": "2026-11-23T09:46:43.402Z", "type": kind, "payload": payload})
	if err != nil {
		r.t.Fatal(err)
	}
	f, err := os.OpenFile(r.file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		r.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(append(b, '\n')); err != nil {
		r.t.Fatal(err)
	}
}

func (r record) call(id, args string) {
	r.add("response_item", map[string]any{"type": "function_call", "name": "exec_command", "call_id": id, "arguments": args})
}

func (r record) output(id, text string) {
	r.add("response_item", map[string]any{"type": "function_call_output", "call_id": id, "output": text})
}

// The output of a command that shows a file is replaced by a line only if the thread's record
// contains the call. Before that, the hook reports the texts that earlier calls really delivered,
// and every loss.
func TestCodexReads(t *testing.T) {
	p := newProject(t)
	delete(p.envs, "CLAUDE_PROJECT_DIR")
	p.args = []string{"--client=codex", "--plugin"}
	p.serve(answers{wire.MRead: func(*wire.Request) (any, []byte, error) {
		return wire.ReadAnswer{Kind: wire.ReadUnchanged}, []byte("cachebro: not repeated."), nil
	}})
	r := record{t, filepath.Join(p.root, "..", "rollout.jsonl")}
	text := manyLines("a")
	post := func(id, command string) string {
		b, err := json.Marshal(map[string]any{"hook_event_name": "PostToolUse", "session_id": "s", "turn_id": "t", "transcript_path": r.file, "cwd": p.root,
			"tool_name": "Bash", "tool_use_id": id, "tool_input": map[string]any{"command": command}, "tool_response": text})
		if err != nil {
			t.Fatal(err)
		}
		p.mu.Lock()
		p.log = nil
		p.mu.Unlock()
		return p.run(string(b)).stdout
	}
	const blocked = `{"decision":"block","reason":"cachebro: not repeated."}` + "\n"
	r.add("session_meta", map[string]any{"id": "s"})
	r.call("u1", `{"cmd":"cat a","workdir":"sub"}`)
	if got := post("u1", "cat a"); got != blocked || p.methods() != "tool.end session read" {
		t.Fatalf("%q, asked %s", got, p.methods())
	}
	var e wire.SessionEvent
	if p.asked(wire.MSession, &e); e.Event != "fell" {
		t.Errorf("an unread record begins with %q", e.Event)
	}
	var q wire.ReadRequest
	if p.asked(wire.MRead, &q); string(q.Path) != "sub/a" || q.Context != wire.ContextHeld || !q.Pending {
		t.Errorf("%s: %+v", q.Path, q)
	}
	for i, c := range []struct{ output, took string }{
		{"cachebro: not repeated.", wire.TookOurs},
		{"Chunk ID: 1\nProcess exited with code 0\nOutput:\n" + text, wire.TookOwn},
		{"Chunk ID: 1\nOutput:\n" + text[:60] + "…9 chars truncated…", wire.TookOther},
	} {
		r.output(fmt.Sprintf("u%d", i+1), c.output)
		next := fmt.Sprintf("u%d", i+2)
		r.call(next, `{"cmd":"cat a"}`)
		if got := post(next, "cat a"); got != blocked || p.methods() != "tool.end commit read" {
			t.Errorf("%q, asked %s", got, p.methods())
		}
		var commit wire.Commit
		if p.asked(wire.MCommit, &commit); len(commit.Calls) != 1 || commit.Calls[0].Took != c.took {
			t.Errorf("%q: %+v", c.output, commit)
		}
	}
	// A call that is not in the record was made by a program, so its result is not replaced.
	if got := post("other", "cat a"); got != "" || strings.Contains(p.methods(), wire.MRead) {
		t.Errorf("%q, asked %s", got, p.methods())
	}
	// The output of other commands is not replaced either.
	r.call("u9", `{"cmd":"make"}`)
	if got := post("u9", "make"); got != "" || p.methods() != "tool.end" {
		t.Errorf("%q, asked %s", got, p.methods())
	}
	for i, loss := range []func(){
		func() { r.add("compacted", map[string]any{"message": ""}) },
		func() { r.add("event_msg", map[string]any{"type": "thread_rolled_back", "num_turns": 1}) },
		func() { r.add("response_item", map[string]any{"type": "context_compaction"}) },
		func() { r.add("a kind of a later version", nil) },
		func() {
			if err := os.Truncate(r.file, 0); err != nil {
				t.Fatal(err)
			}
		},
	} {
		before := fmt.Sprintf("v%d", 2*i)
		r.call(before, `{"cmd":"cat a"}`)
		post(before, "cat a")
		r.output(before, "Output:\n"+text)
		loss()
		id := fmt.Sprintf("v%d", 2*i+1)
		r.call(id, `{"cmd":"cat a"}`)
		post(id, "cat a")
		if p.methods() != "tool.end session read" {
			t.Errorf("loss %d: asked %s", i, p.methods())
			continue
		}
		if p.asked(wire.MSession, &e); e.Event != "fell" {
			t.Errorf("loss %d: %+v", i, e)
		}
	}
}
