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

func openCodeOutput(first, n int, tail string) string {
	var s strings.Builder
	s.WriteString("<path>/p/a b.txt</path>\n<type>file</type>\n<content>\n")
	for i := range n {
		fmt.Fprintf(&s, "%d: line: %d\n", first+i, first+i)
	}
	fmt.Fprintf(&s, "\n(End of file - total %d lines)\n</content>%s", first+n-1, tail)
	return s.String()
}

func TestParseOpenCodeRead(t *testing.T) {
	tail := "\n\n<system-reminder>\nInstructions\n</system-reminder>"
	r, ok := parseOpenCodeRead(openCodeOutput(9, 3, tail))
	if !ok || r.first != 9 || strings.Join(r.lines, "|") != "line: 9|line: 10|line: 11" || r.tail != tail {
		t.Errorf("%+v, %v", r, ok)
	}
	whole := openCodeOutput(1, 3, "")
	for _, other := range []string{
		"", "text", "<path>/p</path>\n<type>directory</type>\n<entries>\na\n</entries>",
		strings.Replace(whole, "2: ", "3: ", 1), strings.Replace(whole, "2: ", "2\t", 1),
		strings.TrimSuffix(whole, "</content>"), openCodeOutput(1, 0, ""), strings.Replace(whole, "(End", "more\n(End", 1),
	} {
		if r, ok := parseOpenCodeRead(other); ok {
			t.Errorf("%q: %+v", other, r)
		}
	}
}

// The daemon's decision is delivered in the form of OpenCode's own tool, and each event is
// acknowledged. The text that the hook printed is compared with the text in the next request.
func TestOpenCodeResults(t *testing.T) {
	tail := "\n\n<system-reminder>\nInstructions\n</system-reminder>"
	long := openCodeOutput(1, 60, tail)
	for _, c := range []struct {
		name   string
		answer wire.ReadAnswer
		text   string
		want   string // "": OpenCode's own text stays
	}{
		{"stub", wire.ReadAnswer{Kind: wire.ReadUnchanged}, "cachebro: not repeated.", "cachebro: not repeated." + tail},
		{"span", wire.ReadAnswer{Kind: wire.ReadSpan, Start: 4, NumLines: 2, Note: "cachebro: changed."}, "four\nfive\n", "cachebro: changed.\n4: four\n5: five" + tail},
		{"span with an empty line", wire.ReadAnswer{Kind: wire.ReadSpan, Start: 4, NumLines: 2, Note: "cachebro: changed."}, "four\n\n", "cachebro: changed.\n4: four\n5: " + tail},
		{"keep", wire.ReadAnswer{Kind: wire.ReadKeep}, "", ""},
	} {
		p := newProject(t)
		delete(p.envs, "CLAUDE_PROJECT_DIR")
		p.args = []string{"--client=opencode", "--plugin"}
		p.serve(answers{wire.MRead: func(*wire.Request) (any, []byte, error) { return c.answer, []byte(c.text), nil }})
		event := func(more map[string]any) string {
			b, err := json.Marshal(more)
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}
		input := map[string]any{"filePath": p.root + "/a b.txt", "file_path": p.root + "/a b.txt"}
		r := p.run(event(map[string]any{"hook_event_name": "PostToolUse", "session_id": "s", "cwd": p.root, "tool_name": "read", "tool_use_id": "u1",
			"tool_input": input, "tool_response": map[string]any{"output": long}}))
		var out struct{ Output string }
		if err := json.Unmarshal([]byte(r.stdout), &out); err != nil || out.Output != c.want {
			t.Errorf("%s: %q, want %q", c.name, r.stdout, c.want)
		}
		var q wire.ReadRequest
		body := p.asked(wire.MRead, &q)
		if !strings.HasPrefix(body, "line: 1\nline: 2\n") || !strings.HasSuffix(body, "\nline: 60") || q.Rewrite.NumLines != 60 || q.Rewrite.StartLine != 1 || q.Rewrite.Rendering != renderBash || q.Context != wire.ContextHeld || !q.Pending {
			t.Errorf("%s: asked %+v with %q", c.name, q, body)
		}
		for _, d := range []struct{ text, took string }{{long, wire.TookOwn}, {c.want, wire.TookOurs}, {"[Old tool result content cleared]", wire.TookOther}} {
			if d.text == "" {
				continue
			}
			r := p.run(event(map[string]any{"hook_event_name": "PostToolBatch", "session_id": "s", "cwd": p.root, "alive": []string{"u0", "u1"},
				"tool_calls": []any{map[string]any{"tool_name": "read", "tool_use_id": "u1", "tool_input": input, "tool_response": d.text}}}))
			var commit wire.Commit
			p.asked(wire.MCommit, &commit)
			if strings.TrimSpace(r.stdout) != "{}" || len(commit.Calls) != 1 || commit.Calls[0].Took != d.took {
				t.Errorf("%s: %q brought %q, %+v", c.name, d.text, r.stdout, commit)
			}
			var s wire.SessionEvent
			if p.asked(wire.MSession, &s); !s.Checked || strings.Join(s.Alive, " ") != "u0 u1" {
				t.Errorf("%s: %+v", c.name, s)
			}
		}
	}
}

// The hook ends a text with a newline only if its last line is empty. Without that newline, the
// text used to be one line shorter than the reported number of lines. It then matched no version,
// and the record of what was shown of the file was dropped.
func TestOpenCodeTellsEmptyLines(t *testing.T) {
	for shown, want := range map[string]string{
		"7: a\n8: \n":       "a\n\n",
		"7: a\n8: \n9: \n":  "a\n\n\n",
		"7: \n":             "\n",
		"7: \n8: a\n":       "\na",
		"7: a\n8: b\n":      "a\nb",
		"7: a\n8: \n9: b\n": "a\n\nb",
	} {
		e := event{tool: "Read", response: fields{}}
		b, err := json.Marshal("<path>/p/f</path>\n<type>file</type>\n<content>\n" + shown + "\n(End of file - total 9 lines)\n</content>")
		if err != nil {
			t.Fatal(err)
		}
		e.response["output"] = b
		translateOpenCode(&e)
		f, ok := plainRead(e.response.object("file"))
		if f.Content != want || f.StartLine != 7 || f.NumLines != strings.Count(shown, "\n") {
			t.Errorf("%q: %q, %d lines from %d, %v", shown, f.Content, f.NumLines, f.StartLine, ok)
		}
	}
}

// A result of an unknown form and the output of a command that failed are left alone. Both are
// acknowledged, because the plugin assumes that an event without an answer was lost.
func TestOpenCodeLeavesAlone(t *testing.T) {
	p := newProject(t)
	delete(p.envs, "CLAUDE_PROJECT_DIR")
	p.args = []string{"--client=opencode"}
	p.serve(answers{wire.MRead: func(*wire.Request) (any, []byte, error) {
		return wire.ReadAnswer{Kind: wire.ReadUnchanged}, []byte("cachebro: no"), nil
	}})
	if err := os.WriteFile(filepath.Join(p.root, "a"), []byte("text that is long enough\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, event := range []string{
		`{"hook_event_name":"PostToolUse","session_id":"s","cwd":"PROJ","tool_name":"read","tool_use_id":"u","tool_input":{"file_path":"PROJ/a"},"tool_response":{"output":"<path>x</path>\n<type>directory</type>\n"}}`,
		`{"hook_event_name":"PostToolUse","session_id":"s","cwd":"PROJ","tool_name":"bash","tool_use_id":"u","tool_input":{"command":"cat a"},"tool_response":{"output":"text that is long enough\n","metadata":{"exit":1}}}`,
		`{"hook_event_name":"PostToolUse","session_id":"s","cwd":"PROJ","tool_name":"bash","tool_use_id":"u","tool_input":{"command":"cat a"},"tool_response":{"output":"text that is long enough\n","metadata":{"exit":0,"truncated":true}}}`,
		`{"hook_event_name":"PostToolUse","session_id":"s","cwd":"PROJ","tool_name":"bash","tool_use_id":"u","tool_input":{"command":"go test ./..."},"tool_response":{"output":"ok\n","metadata":{"exit":0}}}`,
		`{"hook_event_name":"Stop","session_id":"s","cwd":"PROJ"}`,
		`{"hook_event_name":"Stop","session_id":"s","cwd":"/"}`, // no project
	} {
		if r := p.run(event); strings.TrimSpace(r.stdout) != "{}" {
			t.Errorf("%s: %q", event, r.stdout)
		}
	}
	if strings.Contains(p.methods(), wire.MRead) {
		t.Error(p.methods())
	}
	r := p.run(`{"hook_event_name":"PostToolUse","session_id":"s","cwd":"PROJ","tool_name":"bash","tool_use_id":"u","tool_input":{"command":"cat a"},"tool_response":{"output":"text that is long enough\n","metadata":{"exit":0}}}`)
	if r.stdout != `{"output":"cachebro: no"}`+"\n" {
		t.Errorf("%q", r.stdout)
	}
}
