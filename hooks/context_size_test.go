package hooks

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"cachebro/store/wire"
)

// sized is a client whose transcript shows how large its requests were.
type sized struct {
	*project
	file  string
	agent string
	calls int
	edits string       // context_management of the next answers
	word  atomic.Value // what the daemon last heard about the context
}

func newSized(t *testing.T, agent string) *sized {
	s := &sized{project: newProject(t), agent: agent, edits: "null"}
	main := filepath.Join(s.paths.Home, "s1.jsonl")
	if s.file = main; agent != "" {
		s.file = filepath.Join(s.paths.Home, "s1", "subagents", "agent-"+agent+".jsonl")
	}
	for _, f := range []string{main, s.file} {
		if err := os.MkdirAll(filepath.Dir(f), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(f, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s.serve(answers{
		wire.MRead: func(r *wire.Request) (any, []byte, error) {
			var q wire.ReadRequest
			if err := r.Decode(&q); err != nil {
				return nil, nil, err
			}
			s.word.Store(q.Context)
			return wire.ReadAnswer{Kind: wire.ReadKeep}, nil, nil
		},
	})
	return s
}

func (s *sized) add(line string) {
	s.t.Helper()
	f, err := os.OpenFile(s.file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	if _, err := fmt.Fprintln(f, line); err != nil {
		s.t.Fatal(err)
	}
}

// request writes the entry of an answer to a request with this many tokens. The answer calls Read.
func (s *sized) request(tokens int) {
	s.calls++
	s.add(fmt.Sprintf(`{"type":"assistant","uuid":"a%d","parentUuid":null,"message":{"id":"m%d","model":"x","usage":{"input_tokens":3,"cache_read_input_tokens":%d,"cache_creation_input_tokens":0},"context_management":%s,"content":[{"type":"tool_use","id":"t%d"}]}}`,
		s.calls, s.calls, tokens-3, s.edits, s.calls))
}

func (s *sized) result(text string) {
	b, _ := json.Marshal(text)
	s.add(fmt.Sprintf(`{"type":"user","uuid":"r%d","parentUuid":"a%d","message":{"content":[{"type":"tool_result","tool_use_id":"t%d","content":%s}]}}`, s.calls, s.calls, s.calls, b))
}

// prompt writes the entry of a person's prompt.
func (s *sized) prompt() {
	s.add(fmt.Sprintf(`{"type":"user","uuid":"p%d","parentUuid":"a%d","message":{"role":"user","content":"go on"}}`, s.calls, s.calls))
}

// said runs the hook of the latest call, a read, and returns what the hook tells the daemon about the
// context.
func (s *sized) said() string {
	s.t.Helper()
	ev := fmt.Sprintf(`{"hook_event_name":"PostToolUse","session_id":"s1","prompt_id":"p","transcript_path":%q,"cwd":%q,"tool_name":"Read","tool_use_id":"t%d","tool_input":{"file_path":%q},`+
		`"tool_response":{"type":"text","file":{"filePath":%q,"content":"one\ntwo\nthree, and long enough","numLines":3,"startLine":1,"totalLines":3}}}`,
		filepath.Join(s.paths.Home, "s1.jsonl"), s.root, s.calls, s.root+"/a", s.root+"/a")
	if s.agent != "" {
		ev = strings.Replace(ev, `"prompt_id"`, fmt.Sprintf(`"agent_id":%q,"prompt_id"`, s.agent), 1)
	}
	s.word.Store("not asked")
	silent(s.t, s.run(ev))
	return s.word.Load().(string)
}

// If a context grew by at least what it received, it counts as complete. If it shrank, it has lost
// something. If it grew a little less than it should, nothing is reported.
func TestContextSize(t *testing.T) {
	text := strings.Repeat("some words of a result; ", 1000) // about 5,000 tokens
	for _, agent := range []string{"", "a5847b0e11f244e0a"} {
		s := newSized(t, agent)
		step := func(what, want string) {
			t.Helper()
			if got := s.said(); got != want {
				t.Errorf("agent %q: %s: %q, want %q", agent, what, got, want)
			}
		}
		s.request(20_000)
		s.result(text)
		s.request(25_500)
		step("a context that grew", "held")
		s.result(text)
		s.request(31_000)
		s.request(31_100) // without a result, the context need not grow
		step("a context that grew on", "held")
		s.result(text)
		s.prompt()
		s.request(32_000) // 5,000 tokens were added and 4,000 removed, because a prompt drops the thinking before it
		step("a context that grew too little", "unsure")
		s.result(text)
		s.request(35_500)
		step("a context that grew a little too little", "unsure")
		s.result(text)
		s.request(36_500) // 5,000 tokens were added and 4,000 removed, and nothing in the transcript says so
		step("a context that lost something between two calls", "fell")
		s.result(text)
		s.request(42_000)
		step("a context that grew again", "held")
		s.request(31_500)
		step("a context that shrank", "fell")
		s.result(text)
		s.request(37_500)
		step("after that", "held")
		s.request(30_000)
		s.request(60_000)
		step("a context that shrank in between", "fell")
		s.request(61_000)
		step("once it was reported", "held")
	}
}

// Each case is a way in which clients record that they removed something from the context. A text
// was delivered before, and the loss must be reported before the next answer.
func TestSilentClearings(t *testing.T) {
	text := strings.Repeat("some words of a result; ", 1000)
	for name, c := range map[string]func(s *sized){
		// The entries are as Claude Code 2.1.22 wrote them.
		"a microcompact boundary": func(s *sized) {
			s.add(`{"parentUuid":"a2","isSidechain":false,"type":"system","subtype":"microcompact_boundary","content":"Context microcompacted","isMeta":false,"timestamp":"2026-01-24T10:12:07.118Z","uuid":"b7","level":"info",` +
				`"microcompactMetadata":{"trigger":"auto","preTokens":91034,"tokensSaved":59214,"compactedToolIds":["t1","t2","t3","t4","t5","t6","t7"],"clearedAttachmentUUIDs":[]}}`)
			s.request(40_000)
		},
		"a compact boundary": func(s *sized) {
			s.add(`{"type":"system","subtype":"compact_boundary","uuid":"b7","compactMetadata":{"trigger":"manual","preTokens":25500}}`)
			s.request(40_000)
		},
		"a summary": func(s *sized) {
			s.add(`{"type":"user","uuid":"b7","isCompactSummary":true,"message":{"role":"user","content":"This session is continued"}}`)
			s.request(40_000)
		},
		"a result that is the mark of a cleared one": func(s *sized) {
			s.result("[Old tool result content cleared]")
			s.request(40_000)
		},
		// Claude Code 2.1.330 requests this when the user returns after an hour.
		"cleared on the server": func(s *sized) {
			s.edits = `{"applied_edits":[{"type":"clear_tool_uses_20250919","cleared_tool_uses":6,"cleared_input_tokens":41000}]}`
			s.request(40_000)
		},
		"cut by the client on the way out": func(s *sized) {
			s.edits = `{"applied_edits":[],"client_cut_tool_uses":4,"client_estimated_cleared_input_tokens":15000}`
			s.request(40_000)
		},
		"usage that fell by more than a tenth": func(s *sized) { s.request(22_000) },
		"usage that fell by more than 20,000": func(s *sized) {
			s.request(300_000)
			if got := s.said(); got != "held" {
				s.t.Errorf("before: %q", got)
			}
			s.request(279_000)
		},
		"a result that was put aside": func(s *sized) { s.put("t1.txt"); s.request(40_000) },
		"a transcript that was written anew": func(s *sized) {
			if err := os.WriteFile(s.file, []byte("{}\n"), 0o644); err != nil {
				s.t.Fatal(err)
			}
			s.request(40_000)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSized(t, "")
			s.request(20_000)
			s.result(text)
			s.request(25_500)
			if got := s.said(); got != "held" {
				t.Fatalf("before: %q", got)
			}
			c(s)
			if got := s.said(); got != "fell" {
				t.Errorf("%q", got)
			}
			s.edits = "null"
			s.request(400_000)
			if got := s.said(); got != "held" {
				t.Errorf("later: %q", got)
			}
		})
	}
}

// A command that shows only files outside of the project asks nothing about them, so a loss that
// its transcript shows is reported at the next read. The loss used to be read there and dropped, and
// the next read of a lost text was answered with "unchanged".
func TestLossBeforeFilesOutside(t *testing.T) {
	s := newSized(t, "")
	for _, name := range []string{"x", "y"} {
		if err := os.WriteFile(filepath.Join(s.paths.Home, name), []byte(manyLines(name)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s.request(30_000)
	if got := s.said(); got != "held" {
		t.Fatalf("before: %q", got)
	}
	s.request(20_000)
	command := fmt.Sprintf("cat %[1]s/x; cat %[1]s/y", s.paths.Home)
	silent(t, s.run(fmt.Sprintf(`{"hook_event_name":"PostToolUse","session_id":"s1","prompt_id":"p","transcript_path":%q,"cwd":"PROJ","tool_name":"Bash","tool_use_id":"t%d","tool_input":{"command":%q},"tool_response":{"stdout":%q}}`,
		s.file, s.calls, command, strings.TrimSpace(manyLines("x")+manyLines("y")))))
	s.request(25_000)
	if got := s.said(); got != "fell" {
		t.Errorf("%q", got)
	}
}

// A compaction that the start of the session has reported is not reported again, however late the
// client writes the entries of the compaction. In one run of three, the boundary was written after
// the first read of the new context, so the text of that read used to count as lost. Every other
// loss counts, even at that time.
func TestCompactionIsToldOnce(t *testing.T) {
	boundary := `{"type":"system","subtype":"compact_boundary","uuid":"b1","compactMetadata":{"trigger":"auto","preTokens":99000}}`
	summary := `{"type":"user","uuid":"b2","isCompactSummary":true,"message":{"role":"user","content":"This session is continued"}}`
	micro := `{"type":"system","subtype":"microcompact_boundary","uuid":"b3","microcompactMetadata":{"trigger":"auto"}}`
	for name, c := range map[string]struct {
		source string
		early  []string // entries before the first call of the new context
		late   []string // entries after that call
		old    bool     // the last answer of the old context is written with the late entries
		first  string
		second string
	}{
		"in time":                   {"compact", []string{boundary, summary}, nil, false, "held", "held"},
		"late":                      {"compact", nil, []string{boundary, summary}, false, "unsure", "held"},
		"late, with an old answer":  {"compact", nil, []string{boundary, summary}, true, "unsure", "held"},
		"the summary late":          {"compact", []string{boundary}, []string{summary}, false, "unsure", "held"},
		"a second one":              {"compact", nil, []string{boundary, summary, boundary}, false, "unsure", "fell"},
		"cleared as well":           {"compact", nil, []string{boundary, summary, micro}, false, "unsure", "fell"},
		"cleared, no boundary":      {"compact", nil, []string{micro}, false, "unsure", "fell"},
		"in time, and a second one": {"compact", []string{boundary, summary}, []string{boundary}, false, "held", "fell"},
		"of which nobody told":      {"resume", nil, []string{boundary, summary}, false, "unsure", "fell"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSized(t, "")
			s.request(25_000)
			s.run(fmt.Sprintf(`{"hook_event_name":"SessionStart","session_id":"s1","source":%q,"transcript_path":%q,"cwd":%q}`, c.source, s.file, s.root))
			for _, e := range c.early {
				s.add(e)
			}
			if c.first == "held" {
				s.request(5_000)
			} else {
				s.calls++ // its entry is written late too
			}
			if got := s.said(); got != c.first {
				t.Errorf("the first read: %q, want %q", got, c.first)
			}
			if c.old {
				s.request(99_000)
			}
			for _, e := range c.late {
				s.add(e)
			}
			s.request(9_000)
			if got := s.said(); got != c.second {
				t.Errorf("the second: %q, want %q", got, c.second)
			}
		})
	}
}

// These entries only look like losses: thinking that the server drops, edits that removed nothing,
// marks with the value false or null, and a result whose text mentions such things.
func TestNoClearing(t *testing.T) {
	s := newSized(t, "")
	s.request(200_000)
	s.add(`{"type":"user","uuid":"x","isCompactSummary":false,"compactMetadata":null,"message":{"role":"user","content":"compact, cleared"}}`)
	s.result("[Old tool result content cleared] is what clients write; microcompact_boundary too")
	s.edits = `{"applied_edits":[{"type":"clear_thinking_20251015","cleared_thinking_turns":3,"cleared_input_tokens":900},{"type":"clear_tool_uses_20250919","cleared_tool_uses":0}]}`
	s.request(201_000)
	if got := s.said(); got != "held" {
		t.Errorf("%q", got)
	}
	s.edits = "null"
	s.request(199_000)
	if got := s.said(); got != "unsure" {
		t.Errorf("a little less: %q", got)
	}
}

// Nothing is reported about a context if its record lacks this call or was edited in the meantime,
// if the model changed, or if the client's version was never tested.
func TestContextSizeDoubts(t *testing.T) {
	s := newSized(t, "")
	s.request(20_000)
	if got := s.said(); got != "held" {
		t.Fatalf("at first: %q", got)
	}
	s.calls++ // the transcript never contains this call
	if got := s.said(); got != "unsure" {
		t.Errorf("a record that ends before the call: %q", got)
	}
	s.add(`{"type":"assistant","uuid":"z","message":{"id":"mz","model":"y","usage":{"input_tokens":30000},"content":[]}}`)
	s.request(31_000)
	if got := s.said(); got != "unsure" {
		t.Errorf("another model counts in other tokens: %q", got)
	}
	s.request(31_500)
	s.put("t4.txt")
	s.result("<persisted-output>\nOutput too large")
	s.request(32_000)
	if got := s.said(); got != "held" {
		t.Errorf("a large output in a file: %q", got)
	}
	for name, v := range map[string]string{"AI_AGENT": "claude-code_2-1-100_harness", "CLAUDE_CODE_EXTRA_BODY": `{"context_management":{}}`} {
		was := s.envs[name]
		s.envs[name] = v
		s.request(81_000)
		if got := s.said(); got != "unsure" {
			t.Errorf("%s=%s: %q", name, v, got)
		}
		s.envs[name] = was
	}
	if err := os.Remove(s.file); err != nil {
		t.Fatal(err)
	}
	if got := s.said(); got != "" {
		t.Errorf("no transcript: %q", got)
	}
}

// put makes a file in the directory next to the transcript where the client stores results.
func (s *sized) put(name string) {
	s.t.Helper()
	aside := filepath.Join(s.paths.Home, "s1", "tool-results")
	if err := os.MkdirAll(aside, 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(aside, name), []byte("x"), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// A client that puts only the names of our tools into its contexts is not charged for their schema.
// The Stop event corrects the account, once.
func TestDeferredToolsCostTheirNames(t *testing.T) {
	s := newSized(t, "")
	stop := func() int {
		t.Helper()
		s.run(fmt.Sprintf(`{"hook_event_name":"Stop","session_id":"s1","transcript_path":%q,"cwd":%q}`, filepath.Join(s.paths.Home, "s1.jsonl"), s.root))
		return strings.Count(s.methods(), wire.MSpend)
	}
	s.request(20_000)
	if n := stop(); n != 0 {
		t.Errorf("nothing is deferred, and %d entries", n)
	}
	s.add(`{"type":"attachment","uuid":"d","attachment":{"type":"deferred_tools_delta","addedNames":["CronList","mcp__cachebro__search","mcp__cachebro__undo"]}}`)
	s.request(20_100)
	if n := stop(); n != 1 {
		t.Fatalf("%d entries", n)
	}
	var sp wire.Spend
	if body := s.asked(wire.MSpend, &sp); sp.Tool != "schema" || sp.Reader.Session != "s1" || body != "mcp__cachebro__search\nmcp__cachebro__undo\n" {
		t.Errorf("%+v %q", sp, body)
	}
	if n := stop(); n != 1 {
		t.Errorf("entered %d times", n)
	}
}
