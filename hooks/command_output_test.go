package hooks

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"cachebro/store/wire"
)

func searchResult() string {
	var b strings.Builder
	for i := range 40 {
		fmt.Fprintf(&b, "src/some/where/file.go:%d:\tline %d\n", i+1, i)
	}
	return b.String()
}

func passedTests() string {
	var b strings.Builder
	for i := range 30 {
		fmt.Fprintf(&b, "=== RUN   TestNumber%d\n--- PASS: TestNumber%d (0.00s)\n", i, i)
	}
	return b.String() + "PASS\nok  \texample.com/x\t0.012s\n"
}

// after sends a PostToolUse and returns what replaces the result, or nil if nothing does.
func (p *project) after(tool string, input, response any) map[string]any {
	p.t.Helper()
	in, _ := json.Marshal(input)
	resp, _ := json.Marshal(response)
	r := p.run(fmt.Sprintf(`{"session_id":"s1","cwd":"PROJ","hook_event_name":"PostToolUse","tool_name":%q,"tool_use_id":"t1","tool_input":%s,"tool_response":%s}`, tool, in, resp))
	var out struct {
		Specific struct {
			Updated map[string]any `json:"updatedToolOutput"`
		} `json:"hookSpecificOutput"`
	}
	if r.stdout != "" {
		if err := json.Unmarshal([]byte(r.stdout), &out); err != nil {
			p.t.Fatal(err)
		}
	}
	return out.Specific.Updated
}

func bashResult(stdout string) map[string]any {
	return map[string]any{"stdout": strings.TrimRight(stdout, "\n"), "stderr": "", "interrupted": false, "isImage": false, "noOutputExpected": false}
}

type object = map[string]any

// The output of a command is shortened if its form is known. The savings are counted by rule once
// the model has the shortened output.
func TestCommandOutput(t *testing.T) {
	p := newProject(t)
	p.serve(nil)
	got := p.after("Bash", object{"command": "rg -n line src"}, bashResult(searchResult()))
	text, _ := got["stdout"].(string)
	if !strings.HasPrefix(text, "cachebro: lines are grouped by path\nsrc/some/where/file.go\n1:\tline 0\n2:\tline 1\n") {
		t.Fatalf("%q", text)
	}
	batch := func(tool, text string) {
		b, _ := json.Marshal(text)
		p.run(fmt.Sprintf(`{"session_id":"s1","cwd":"PROJ","hook_event_name":"PostToolBatch","tool_calls":[{"tool_name":%q,"tool_use_id":"t1","tool_input":{},"tool_response":%s}]}`, tool, b))
	}
	batch("Bash", text)
	var s wire.Spend
	if p.asked(wire.MSpend, &s); s.Tool != "output: search" || s.Full <= s.Sent || s.Sent == 0 {
		t.Errorf("spent %+v", s)
	}
	// A search does not count as showing lines of the file, so no stub may rely on it.
	var commit wire.Commit
	if m := p.methods(); strings.Contains(m, wire.MRead) || strings.Contains(m, wire.MShown) {
		t.Errorf("a search was entered as a read: %s", m)
	} else if strings.Contains(m, wire.MCommit) {
		if p.asked(wire.MCommit, &commit); len(commit.Calls) > 0 {
			t.Errorf("committed %+v", commit.Calls)
		}
	}
	if got := p.after("Bash", object{"command": "rg -n line src > out"}, bashResult(searchResult())); got != nil {
		t.Errorf("redirected: %v", got)
	}
	// If the client shows its own text nevertheless, its results are no longer replaced in this form.
	if p.after("Bash", object{"command": "rg -n line src"}, bashResult(searchResult())) == nil {
		t.Fatal("not rewritten")
	}
	batch("Bash", strings.TrimRight(searchResult(), "\n"))
	if got := p.after("Bash", object{"command": "rg -n line src"}, bashResult(searchResult())); got != nil {
		t.Errorf("refused, and sent again: %v", got)
	}
}

// A folded output is stored before the shortened text is printed. If it cannot be stored, or may
// contain a secret, nothing is folded.
func TestFoldedOutputIsKept(t *testing.T) {
	p := newProject(t)
	var fail bool
	p.serve(answers{wire.MOutput: func(r *wire.Request) (any, []byte, error) {
		if fail {
			return nil, nil, wire.Errorf(wire.ErrNoSpace, "", "no")
		}
		return wire.Empty{}, nil, nil
	}})
	got := p.after("Bash", object{"command": "go test -v ./..."}, bashResult(passedTests()))
	text, _ := got["stdout"].(string)
	var q wire.OutputRequest
	body := p.asked(wire.MOutput, &q)
	if body != strings.TrimRight(passedTests(), "\n") || q.Session != "s1" || !strings.Contains(text, " output "+q.ID+"\n") ||
		!strings.Contains(text, "30 passed tests folded") || !strings.Contains(text, "ok  \texample.com/x") {
		t.Errorf("%q kept as %+v: %q", text, q, body)
	}
	if fail = true; p.after("Bash", object{"command": "go test -v ./..."}, bashResult(passedTests())) != nil {
		t.Error("folded, and kept nowhere")
	}
	fail = false
	if p.after("Bash", object{"command": "go test -v ./..."}, bashResult(passedTests()+"password=hunter2hunter2\n")) != nil {
		t.Error("a secret was kept")
	}
	if p.after("Bash", object{"command": "go test -v ./... | tail -90"}, bashResult(passedTests()+"--- FAIL: TestX (0.00s)\nFAIL\n")) != nil {
		t.Error("folded although a test failed")
	}
}

// Claude Code prints the matches of a search with relative paths. The path of a context line is
// relative only if the line has a colon.
func TestGrepWithContext(t *testing.T) {
	p := newProject(t)
	p.serve(nil)
	var b strings.Builder
	for i := 10; i < 200; i += 10 {
		fmt.Fprintf(&b, "%s/src/some-where/file.go-%d-\treturn\nsrc/some-where/file.go-%d-\tcase x:\nsrc/some-where/file.go:%d:\tline\n--\n", p.root, i, i+1, i+2)
	}
	got := p.after("Grep", object{"pattern": "line", "output_mode": "content", "-B": 2}, object{"mode": "content", "numFiles": 0, "filenames": []string{}, "content": b.String(), "numLines": 76})
	text, _ := got["content"].(string)
	if !strings.HasPrefix(text, "cachebro: lines are grouped by path\nsrc/some-where/file.go\n10-\treturn\n11-\tcase x:\n12:\tline\n--\n20-") || strings.Contains(text, p.root) {
		t.Errorf("%s", text)
	}
}

// If a result is long, the client puts it into a file and gives the model a preview of it, whatever
// hooks do. So such a result is not shortened, and nothing is counted as saved.
func TestPersistedResultsSaveNothing(t *testing.T) {
	p := newProject(t)
	p.serve(nil)
	long := strings.Repeat(searchResult(), 20)
	if got := p.after("Grep", object{"pattern": "line", "output_mode": "content"}, object{"mode": "content", "numFiles": 0, "filenames": []string{}, "content": long}); got != nil {
		t.Error("a result that the client persists was said in other words")
	}
	got := p.after("Grep", object{"pattern": "line", "output_mode": "content"}, object{"mode": "content", "numFiles": 0, "filenames": []string{}, "content": searchResult()})
	text, _ := got["content"].(string)
	b, _ := json.Marshal("<persisted-output>\nOutput too large (24KB). Full output saved to: /x\n\nPreview (first 2KB):\n" + text[:200] + "\n...\n</persisted-output>")
	p.run(fmt.Sprintf(`{"session_id":"s1","cwd":"PROJ","hook_event_name":"PostToolBatch","tool_calls":[{"tool_name":"Grep","tool_use_id":"t1","tool_input":{},"tool_response":%s}]}`, b))
	if strings.Contains(p.methods(), wire.MSpend) {
		t.Errorf("counted: %s", p.methods())
	}
	if p.after("Grep", object{"pattern": "line", "output_mode": "content"}, object{"mode": "content", "numFiles": 0, "filenames": []string{}, "content": searchResult()}) == nil {
		t.Error("a preview was taken for a refusal")
	}
}

// The results of the client's own search tools have their own forms.
func TestOwnSearchTools(t *testing.T) {
	p := newProject(t)
	p.serve(nil)
	got := p.after("Grep", object{"pattern": "line", "output_mode": "content"}, object{"mode": "content", "numFiles": 0, "filenames": []string{}, "content": searchResult(), "numLines": 40})
	if text, _ := got["content"].(string); !strings.HasPrefix(text, "cachebro: lines are grouped by path\nsrc/some/where/file.go\n1:") || got["numLines"] != 40.0 || got["mode"] != "content" {
		t.Errorf("%v", got)
	}
	var files []string
	for i := range 30 {
		files = append(files, fmt.Sprintf("src/some/where/deep/file%02d.go", i))
	}
	for tool, resp := range map[string]object{
		"Glob": {"filenames": files, "durationMs": 3, "numFiles": 30, "truncated": false},
		"Grep": {"mode": "files_with_matches", "filenames": files, "numFiles": 30},
	} {
		got := p.after(tool, object{"pattern": "**/*.go"}, resp)
		list, _ := got["filenames"].([]any)
		if len(list) != 32 || list[1] != "src/some/where/deep/" || list[2] != "  file00.go" || got["numFiles"] != 30.0 {
			t.Errorf("%s: %v", tool, got)
		}
	}
}

// Outputs that were requested byte for byte are not changed, nor are outputs whose rules are switched
// off.
func TestOutputsLeftAlone(t *testing.T) {
	p := newProject(t)
	p.serve(nil)
	for _, command := range []string{
		"cat notes.txt", "rg --json -n line src", "rg -n line src | tee out", "git diff", "grep -n line file.go", "rg -c line", "cat a.go && rg -n line src",
		"for f in *; do rg -n line $f; done", "rg -n line src | awk '{print $1}'", "rg -n line src &", "python3 x.py", "rg -n line src | wc -l", "unknown-tool src",
	} {
		if got := p.after("Bash", object{"command": command}, bashResult(searchResult())); got != nil {
			t.Errorf("%s: %v", command, got)
		}
	}
	odd := bashResult(searchResult())
	odd["persistedOutputPath"] = "/tmp/x"
	if got := p.after("Bash", object{"command": "rg -n line src"}, odd); got != nil {
		t.Errorf("a cut output: %v", got)
	}
	for option, rewritten := range map[string]bool{"--no-reshape": false, "--no-reshape=search,alike": false, "--no-reshape=tree,tests": true, "--no-rewrite": false} {
		p.args = []string{option}
		if got := p.after("Bash", object{"command": "rg -n line src"}, bashResult(searchResult())); (got != nil) != rewritten {
			t.Errorf("%s: %v", option, got)
		}
	}
}
