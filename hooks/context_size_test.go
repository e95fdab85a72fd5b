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

// sized is a client whose transcript says how large its requests were.
type sized struct {
	*project
	file  string
	agent string
	calls int
}

func newSized(t *testing.T, agent string) *sized {
	s := &sized{project: newProject(t), agent: agent}
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
	aged := true
	s.serve(answers{
		wire.MRead: func(r *wire.Request) (any, []byte, error) {
			var q wire.ReadRequest
			if err := r.Decode(&q); err != nil {
				return nil, nil, err
			}
			if q.Check && aged {
				return wire.ReadAnswer{Kind: wire.ReadAged}, nil, nil
			}
			return wire.ReadAnswer{Kind: wire.ReadUnchanged, TotalLines: 3}, []byte("cachebro: x."), nil
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

// request is an answer to a request of so many tokens; it calls Read.
func (s *sized) request(tokens int) {
	s.calls++
	s.add(fmt.Sprintf(`{"type":"assistant","uuid":"a%d","parentUuid":null,"message":{"id":"m%d","model":"x","usage":{"input_tokens":3,"cache_read_input_tokens":%d,"cache_creation_input_tokens":0},"content":[{"type":"tool_use","id":"t%d"}]}}`,
		s.calls, s.calls, tokens-3, s.calls))
}

func (s *sized) result(text string) {
	b, _ := json.Marshal(text)
	s.add(fmt.Sprintf(`{"type":"user","uuid":"r%d","parentUuid":"a%d","message":{"content":[{"type":"tool_result","tool_use_id":"t%d","content":%s}]}}`, s.calls, s.calls, s.calls, b))
}

// said is what the read of the latest call tells the daemon about the context.
func (s *sized) said() string {
	s.t.Helper()
	s.mu.Lock()
	s.log = nil
	s.mu.Unlock()
	ev := fmt.Sprintf(`{"hook_event_name":"PostToolUse","session_id":"s1","prompt_id":"p","transcript_path":%q,"cwd":%q,"tool_name":"Read","tool_use_id":"t%d","tool_input":{"file_path":%q},`+
		`"tool_response":{"type":"text","file":{"filePath":%q,"content":"one\ntwo\nthree, and long enough","numLines":3,"startLine":1,"totalLines":3}}}`,
		filepath.Join(s.paths.Home, "s1.jsonl"), s.root, s.calls, s.root+"/a", s.root+"/a")
	if s.agent != "" {
		ev = strings.Replace(ev, `"prompt_id"`, fmt.Sprintf(`"agent_id":%q,"prompt_id"`, s.agent), 1)
	}
	if r := s.run(ev); r.code != 0 || r.stderr != "" {
		s.t.Fatalf("%+v", r)
	}
	var words []string
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.log {
		var e wire.SessionEvent
		if a.method == wire.MSession && json.Unmarshal(a.params, &e) == nil && (e.Event == wire.EventHeld || e.Event == wire.EventFell) {
			if e.Agent != s.agent {
				s.t.Errorf("told of agent %q", e.Agent)
			}
			words = append(words, e.Event)
		}
	}
	return strings.Join(words, " ")
}

// A context that grew by what it was given lost nothing; one that grew less or
// became smaller did. What came after that is whole again.
func TestContextSize(t *testing.T) {
	text := strings.Repeat("some words of a result; ", 1000) // about 5,000 tokens
	for _, agent := range []string{"", "a5847b0e11f244e0a"} {
		s := newSized(t, agent)
		s.request(20_000)
		s.result(text)
		s.request(25_500)
		if got := s.said(); got != "held" {
			t.Errorf("agent %q: a context that grew: %q", agent, got)
		}
		s.result(text)
		s.request(31_000)
		s.request(31_100) // no result: nothing to grow by
		if got := s.said(); got != "held" {
			t.Errorf("agent %q: a context that grew on: %q", agent, got)
		}
		s.result(text)
		s.request(32_000) // 5,000 came, 4,000 went
		if got := s.said(); got != "fell" {
			t.Errorf("agent %q: a context that grew too little: %q", agent, got)
		}
		s.result(text)
		s.request(37_500)
		if got := s.said(); got != "held" {
			t.Errorf("agent %q: after that: %q", agent, got)
		}
		s.request(30_000)
		s.request(60_000)
		if got := s.said(); got != "fell" {
			t.Errorf("agent %q: a context that shrank in between: %q", agent, got)
		}
		s.add(`{"type":"system","subtype":"microcompact_boundary","uuid":"b"}`)
		s.request(61_000)
		if got := s.said(); got != "fell" {
			t.Errorf("agent %q: the client says that it cleared: %q", agent, got)
		}
	}
}

// Nothing is said of a context whose record does not reach this call, is of
// another model, or is edited on the way; what the client put aside was
// cleared, unless it was a large output from the start.
func TestContextSizeDoubts(t *testing.T) {
	s := newSized(t, "")
	s.request(20_000)
	if got := s.said(); got != "held" {
		t.Fatalf("at first: %q", got)
	}
	s.calls++ // the transcript never tells of this call
	if got := s.said(); got != "" {
		t.Errorf("a record that ends before the call: %q", got)
	}
	s.add(`{"type":"assistant","uuid":"z","message":{"id":"mz","model":"y","usage":{"input_tokens":30000},"content":[]}}`)
	s.request(31_000)
	if got := s.said(); got != "fell" {
		t.Errorf("another model counts in other tokens: %q", got)
	}
	aside := filepath.Join(s.paths.Home, "s1", "tool-results")
	put := func(name string) {
		if err := os.MkdirAll(aside, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(aside, name), []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s.request(31_500)
	put("t4.txt")
	s.result("<persisted-output>\nOutput too large")
	s.request(32_000)
	if got := s.said(); got != "held" {
		t.Errorf("a large output in a file: %q", got)
	}
	put("t1.txt")
	s.request(80_000)
	if got := s.said(); got != "fell" {
		t.Errorf("a result that was put aside: %q", got)
	}
	for name, v := range map[string]string{"AI_AGENT": "claude-code_2-1-100_harness", "CLAUDE_CODE_EXTRA_BODY": `{"context_management":{}}`} {
		was := s.envs[name]
		s.envs[name] = v
		s.request(81_000)
		if got := s.said(); got != "" {
			t.Errorf("%s=%s: %q", name, v, got)
		}
		s.envs[name] = was
	}
}
