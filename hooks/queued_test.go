package hooks

import (
	"os"
	"path/filepath"
	"testing"

	"cachebro/store/wire"
)

// A prompt that is typed during a turn begins with the next call. This also holds if later entries
// have moved its entry away from the end of the transcript. A text that the client queues by itself
// is not a prompt, and a text that was queued in an earlier turn does not count.
func TestQueuedPrompt(t *testing.T) {
	p := newProject(t)
	p.serve(nil)
	transcript := filepath.Join(t.TempDir(), "t.jsonl")
	write := func(entries string) {
		t.Helper()
		if err := os.WriteFile(transcript, []byte(entries), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	call := func(prompt, id, agent string) wire.ToolCall {
		t.Helper()
		p.run(`{"hook_event_name":"PreToolUse","session_id":"s","prompt_id":"` + prompt + `","agent_id":"` + agent + `","cwd":"PROJ","transcript_path":"` + transcript + `","tool_name":"Bash","tool_use_id":"` + id + `","tool_input":{"command":"make"}}`)
		var c wire.ToolCall
		p.asked(wire.MToolBegin, &c)
		return c
	}
	const turn = `{"type":"user","promptId":"p1","message":{}}` + "\n"
	queued := func(id, mode, kind string) string {
		return `{"type":"attachment","attachment":{"type":"queued_command","prompt":"and ` + id + `","source_uuid":"` + id + `","commandMode":"` + mode + `","origin":{"kind":"` + kind + `"}}}` + "\n"
	}
	for _, tt := range []struct{ what, entries, prompt, agent, want string }{
		{"nothing", turn, "p1", "", "p1"},
		{"a notification", turn + queued("n1", "task-notification", "task-notification"), "p1", "", "p1"},
		{"somebody else's", turn + queued("n2", "prompt", "teammate"), "p1", "", "p1"},
		{"typed", turn + queued("q1", "prompt", "human"), "p1", "", "q1"},
		{"an agent of before", turn + queued("q1", "prompt", "human"), "p1", "a1", "p1"},
		{"long after it", `{"type":"user","promptId":"p1","message":{}}` + "\n", "p1", "", "q1"},
		{"typed again", turn + queued("q1", "prompt", "human") + queued("q2", "prompt", ""), "p1", "", "q2"},
		{"the next turn", turn + queued("q2", "prompt", "") + `{"type":"user","promptId":"p2","message":{}}` + "\n", "p2", "", "p2"},
	} {
		write(tt.entries)
		if got := call(tt.prompt, "t-"+tt.what, tt.agent); got.Prompt != tt.want {
			t.Errorf("%s: the call is of %q, want %q", tt.what, got.Prompt, tt.want)
		}
	}
	var e wire.SessionEvent
	if p.asked(wire.MSession, &e); e.Event != "prompt" || e.Prompt != "q2" || e.Text != "and q2" {
		t.Errorf("the daemon received %+v", e)
	}
}
