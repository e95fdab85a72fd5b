package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// turn is one answer of the scripted model.
type turn struct {
	calls  []call
	text   string // used if there are no calls
	tokens int    // input tokens that are reported to the client; 0 means a small number
}

// call is a tool call. A program that the model writes is its argument "".
type call struct {
	tool string
	args map[string]any
}

// model answers in the formats of OpenAI's chat completions, OpenAI's responses and Gemini. A
// request without tools (for a title or a summary) gets a line of text and uses up no turn.
type model struct {
	dir    string // directory for the requests
	listen net.Listener
	server *http.Server

	mu      sync.Mutex // guards the rest
	turns   []turn
	calls   []string // ids in the order of the calls
	results map[string]string
	n       int
	// lines counts the requests that held a one-line stub, baseless those in which the text
	// that a stub stands for was missing.
	lines, baseless int
}

func startModel(dir string) (*model, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	m := &model{dir: dir, listen: l, results: map[string]string{}}
	m.server = &http.Server{Handler: m}
	go func() { _ = m.server.Serve(l) }()
	return m, os.MkdirAll(dir, 0o755)
}

func (m *model) url() string { return "http://" + m.listen.Addr().String() }

// play sets the next answers and forgets the calls so far.
func (m *model) play(turns ...turn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turns, m.calls = turns, nil
}

// given returns the result of the n-th call of the current play.
func (m *model) given(n int) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n >= len(m.calls) {
		return fmt.Sprintf("(call %d was not made)", n+1)
	}
	text, ok := m.results[m.calls[n]]
	if !ok {
		return fmt.Sprintf("(call %d has no result)", n+1)
	}
	return text
}

// bytes returns the size of all results that reached the model.
func (m *model) bytes() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, text := range m.results {
		n += len(text)
	}
	return n
}

func (m *model) next() (turn, []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := turn{text: "done"}
	if len(m.turns) > 0 {
		t, m.turns = m.turns[0], m.turns[1:]
	}
	var ids []string
	for range t.calls {
		m.n++
		ids = append(ids, fmt.Sprintf("call_%03d", m.n))
	}
	m.calls = append(m.calls, ids...)
	return t, ids
}

func (m *model) keep(id, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.results[id] = text
}

// judge checks the results in one request, in their order: a stub that says that something is
// not repeated must come after the text. All files that are read have a line with these words.
func (m *model) judge(results []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	text, line := false, false
	for _, r := range results {
		text = text || strings.Contains(r, " 150 of a file")
		if strings.Contains(r, "cachebro: not repeated") || strings.Contains(r, "[unchanged") {
			line = true
			if !text {
				m.baseless++
				return
			}
		}
	}
	if line {
		m.lines++
	}
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if len(body) > 0 {
		m.mu.Lock()
		m.n++
		name := fmt.Sprintf("%04d%s.json", m.n, strings.ReplaceAll(r.URL.Path, "/", "_"))
		m.mu.Unlock()
		_ = os.WriteFile(filepath.Join(m.dir, name), body, 0o600)
	}
	var q map[string]any
	_ = json.Unmarshal(body, &q)
	switch {
	case strings.HasSuffix(r.URL.Path, "/chat/completions"):
		m.chat(w, q)
	case strings.HasSuffix(r.URL.Path, "/responses"):
		m.responses(w, q)
	case strings.Contains(r.URL.Path, "enerateContent"):
		m.gemini(w, q, strings.Contains(r.URL.Path, "streamGenerateContent"))
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"totalTokens":1,"data":[],"models":[]}`)
	}
}

// events writes server-sent events.
func events(w http.ResponseWriter, all ...any) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range all {
		if name, ok := e.(string); ok {
			fmt.Fprintf(w, "data: %s\n\n", name)
			continue
		}
		if o, ok := e.(obj); ok && o["type"] != nil {
			fmt.Fprintf(w, "event: %s\n", o["type"])
		}
		b, _ := json.Marshal(e)
		fmt.Fprintf(w, "data: %s\n\n", b)
	}
}

type (
	obj  = map[string]any
	list = []any
)

func array(v any) list { l, _ := v.(list); return l }

func object(v any) obj { o, _ := v.(obj); return o }

// said returns a string, or the joined texts of a list of parts.
func said(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	var b strings.Builder
	for _, p := range array(v) {
		s, _ := object(p)["text"].(string)
		b.WriteString(s)
	}
	return b.String()
}

func (m *model) chat(w http.ResponseWriter, q obj) {
	var results []string
	for _, v := range array(q["messages"]) {
		if o := object(v); o["role"] == "tool" {
			results = append(results, said(o["content"]))
			m.keep(fmt.Sprint(o["tool_call_id"]), said(o["content"]))
		}
	}
	m.judge(results)
	t, ids := turn{text: "A summary."}, []string(nil)
	if len(array(q["tools"])) > 0 {
		t, ids = m.next()
	}
	delta, reason := obj{"role": "assistant"}, "stop"
	var calls list
	for i, c := range t.calls {
		args, _ := json.Marshal(c.args)
		calls = append(calls, obj{"index": i, "id": ids[i], "type": "function", "function": obj{"name": c.tool, "arguments": string(args)}})
	}
	if calls != nil {
		delta["tool_calls"], reason = calls, "tool_calls"
	} else {
		delta["content"] = t.text
	}
	usage := obj{"prompt_tokens": max(t.tokens, 100), "completion_tokens": 1, "total_tokens": max(t.tokens, 100) + 1}
	chunk := func(d obj, why any) obj {
		return obj{"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": list{obj{"index": 0, "delta": d, "finish_reason": why}}, "usage": usage}
	}
	if q["stream"] == true {
		events(w, chunk(delta, nil), chunk(obj{}, reason), "[DONE]")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(obj{"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": list{obj{"index": 0, "message": delta, "finish_reason": reason}}, "usage": usage})
}

func (m *model) responses(w http.ResponseWriter, q obj) {
	var results []string
	for _, v := range array(q["input"]) {
		if o := object(v); o["type"] == "function_call_output" || o["type"] == "custom_tool_call_output" {
			results = append(results, said(o["output"]))
			m.keep(fmt.Sprint(o["call_id"]), said(o["output"]))
		}
	}
	m.judge(results)
	t, ids := turn{text: "A summary."}, []string(nil)
	if len(array(q["tools"])) > 0 {
		t, ids = m.next()
	}
	out := list{obj{"type": "response.created", "response": obj{"id": "r"}}}
	for i, c := range t.calls {
		args, _ := json.Marshal(c.args)
		item := obj{"type": "function_call", "id": ids[i], "call_id": ids[i], "name": c.tool, "arguments": string(args)}
		if space, name, ok := strings.Cut(c.tool, "/"); ok {
			item["namespace"], item["name"] = space, name
		}
		if program, ok := c.args[""]; ok {
			item = obj{"type": "custom_tool_call", "id": ids[i], "call_id": ids[i], "name": c.tool, "input": program}
		}
		out = append(out, obj{"type": "response.output_item.done", "output_index": i, "item": item})
	}
	if t.calls == nil {
		out = append(out, obj{"type": "response.output_item.done", "output_index": 0, "item": obj{"type": "message", "id": "m", "role": "assistant", "content": list{obj{"type": "output_text", "text": t.text}}}})
	}
	n := max(t.tokens, 100)
	out = append(out, obj{"type": "response.completed", "response": obj{"id": "r", "usage": obj{"input_tokens": n, "input_tokens_details": nil, "output_tokens": 1, "output_tokens_details": nil, "total_tokens": n + 1}}})
	events(w, out...)
}

func (m *model) gemini(w http.ResponseWriter, q obj, stream bool) {
	// Results have no ids: the k-th result belongs to the k-th call.
	var answers []string
	for _, v := range array(q["contents"]) {
		for _, p := range array(object(v)["parts"]) {
			if f := object(object(p)["functionResponse"]); f != nil {
				o := object(f["response"])
				text := said(o["output"])
				if e := said(o["error"]); e != "" {
					text = "error: " + e
				}
				answers = append(answers, text)
			}
		}
	}
	m.judge(answers)
	m.mu.Lock()
	for i, a := range answers {
		if i < len(m.calls) {
			m.results[m.calls[i]] = a
		}
	}
	m.mu.Unlock()
	t := turn{text: "A summary."}
	if len(array(q["tools"])) > 0 {
		t, _ = m.next()
	}
	var parts list
	for _, c := range t.calls {
		parts = append(parts, obj{"functionCall": obj{"name": c.tool, "args": c.args}})
	}
	if parts == nil {
		parts = list{obj{"text": t.text}}
	}
	n := max(t.tokens, 100)
	answer := obj{"candidates": list{obj{"content": obj{"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}},
		"usageMetadata": obj{"promptTokenCount": n, "candidatesTokenCount": 1, "totalTokenCount": n + 1}}
	if stream {
		events(w, answer)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// asked reports whether any request so far contains the text.
func (m *model) asked(text string) bool {
	names, _ := filepath.Glob(filepath.Join(m.dir, "*.json"))
	return slices.ContainsFunc(names, func(name string) bool {
		b, err := os.ReadFile(name)
		return err == nil && strings.Contains(string(b), text)
	})
}
