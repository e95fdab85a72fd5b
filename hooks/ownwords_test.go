package hooks

import (
	"os"
	"strings"
	"testing"

	"cachebro/store/wire"
)

// The client's own Write and Edit would put an answer of ours into a file as well.
func TestOwnAnswersAreNotWritten(t *testing.T) {
	p := newProject(t)
	p.serve(answers{wire.MToolBegin: func(*wire.Request) (any, []byte, error) { return wire.ToolBeginAnswer{}, nil, nil }})
	const stub = "[unchanged · 499 lines · ~4.1k saved]"
	if err := os.WriteFile(p.root+"/doc.md", []byte(stub+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tool, input string
		denied      bool
	}{
		{"Write", `"file_path":"PROJ/a.go","content":"` + stub + `"`, true},
		{"Edit", `"file_path":"PROJ/a.go","old_string":"a","new_string":"b\n` + stub + `\n"`, true},
		{"Edit", `"file_path":"PROJ/doc.md","old_string":"a","new_string":"` + stub + `"`, false},
		{"Write", `"file_path":"PROJ/a.go","content":"package a"`, false},
	} {
		r := p.run(`{"session_id":"s1","cwd":"PROJ","hook_event_name":"PreToolUse","tool_name":"` + c.tool + `","tool_input":{` + c.input + `},"tool_use_id":"t1"}`)
		if denied := strings.Contains(r.stdout, `"permissionDecision":"deny"`) && strings.Contains(r.stdout, "cachebro's answer"); denied != c.denied {
			t.Errorf("%s %s: %s", c.tool, c.input, r.stdout)
		}
	}
}
