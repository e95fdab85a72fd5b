// Package modelserver answers coding agents in place of a model, on loopback. It does so in the
// formats of Anthropic's messages, OpenAI's chat completions and responses, and Gemini. A script
// decides what the model says. Each request is kept as a file.
package modelserver

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Answer is one answer of the model: text, or tool calls that the client runs before it asks
// again.
type Answer struct {
	Text  string // if there are Calls, only Anthropic's format has the text too
	Calls []Call
	IDs   []string // ids of the calls
	// Tokens is the number of input tokens that is reported to the client. If it is 0, Anthropic's
	// format reports an estimate, and the others report a small number. A large number makes
	// clients compact.
	Tokens int
}

// Call is a tool call. If the model writes a program, Input has the program under the key "".
type Call struct {
	Name  string         `json:"name"`
	Input map[string]any `json:"input"`
}

// Request is a request of a client for an answer.
type Request struct {
	N       int // number of the request on this server, in order
	Body    []byte
	Tools   bool     // the client offers tools; it offers none when it asks for a title or a summary
	Results []Result // results of tool calls; they are not read from Anthropic's format
}

// Result is the result of a tool call. Gemini's results have no id.
type Result struct{ ID, Text string }

// Server answers requests.
type Server struct {
	URL    string
	dir    string
	script func(Request) Answer
	http   http.Server

	mu sync.Mutex // guards n
	n  int
}

// Start listens on a loopback port. Requests are stored in dir. script answers them and is called
// concurrently.
func Start(dir string, script func(Request) Answer) (*Server, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("request log: %w", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	s := &Server{URL: "http://" + l.Addr().String(), dir: dir, script: script}
	s.http = http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.http.Serve(l) }() // ends with Close
	return s, nil
}

// Close ends the server.
func (s *Server) Close() { s.http.Close() }

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	s.n++
	n := s.n
	s.mu.Unlock()
	if len(body) > 0 {
		name := fmt.Sprintf("%04d%s.json", n, strings.ReplaceAll(r.URL.Path, "/", "_"))
		_ = os.WriteFile(filepath.Join(s.dir, name), body, 0o600)
	}
	var q obj
	_ = json.Unmarshal(body, &q)
	ask := Request{N: n, Body: body, Tools: len(array(q["tools"])) > 0}
	switch path := r.URL.Path; {
	case path == "/v1/messages":
		s.messages(w, q, ask)
	case path == "/v1/messages/count_tokens":
		reply(w, obj{"input_tokens": tokensOf(body)})
	case strings.HasSuffix(path, "/chat/completions"):
		s.chat(w, q, ask)
	case strings.HasSuffix(path, "/responses"):
		s.responses(w, q, ask)
	case strings.Contains(path, "enerateContent"):
		s.gemini(w, q, ask, strings.Contains(path, "streamGenerateContent"))
	default:
		reply(w, obj{"totalTokens": 1, "data": list{}, "models": list{}})
	}
}

// tokensOf estimates the tokens of a request. The estimate must grow with the texts, because the
// hooks compare the growth of requests with the texts that were added. If a request grew by less,
// the context has lost something.
func tokensOf(body []byte) int { return len(body) / 4 }

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
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

// messages answers in Anthropic's format.
func (s *Server) messages(w http.ResponseWriter, q obj, ask Request) {
	t := s.script(ask)
	if t.Tokens == 0 {
		t.Tokens = tokensOf(ask.Body)
	}
	reason := "end_turn"
	if len(t.Calls) > 0 {
		reason = "tool_use"
	}
	// Give each answer another id, because the client joins answers with the same id into one
	// message.
	answer := obj{
		"id": fmt.Sprintf("msg_%06d", ask.N), "type": "message", "role": "assistant", "model": q["model"], "content": list{}, "stop_reason": nil, "stop_sequence": nil,
		"usage": obj{"input_tokens": t.Tokens, "output_tokens": 10, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0},
	}
	content, all := list{}, list{obj{"type": "message_start", "message": answer}}
	add := func(whole, start, delta obj) {
		i := len(content)
		content = append(content, whole)
		all = append(all, obj{"type": "content_block_start", "index": i, "content_block": start}, obj{"type": "content_block_delta", "index": i, "delta": delta}, obj{"type": "content_block_stop", "index": i})
	}
	if t.Text != "" {
		add(obj{"type": "text", "text": t.Text}, obj{"type": "text", "text": ""}, obj{"type": "text_delta", "text": t.Text})
	}
	for i, c := range t.Calls {
		input, _ := json.Marshal(c.Input)
		use := func(input any) obj { return obj{"type": "tool_use", "id": t.IDs[i], "name": c.Name, "input": input} }
		add(use(c.Input), use(obj{}), obj{"type": "input_json_delta", "partial_json": string(input)})
	}
	if q["stream"] == true {
		all = append(all, obj{"type": "message_delta", "delta": obj{"stop_reason": reason, "stop_sequence": nil}, "usage": answer["usage"]}, obj{"type": "message_stop"})
		events(w, all...)
		return
	}
	answer["content"], answer["stop_reason"] = content, reason
	reply(w, answer)
}

// chat answers in the format of chat completions.
func (s *Server) chat(w http.ResponseWriter, q obj, ask Request) {
	for _, v := range array(q["messages"]) {
		if o := object(v); o["role"] == "tool" {
			ask.Results = append(ask.Results, Result{fmt.Sprint(o["tool_call_id"]), said(o["content"])})
		}
	}
	t := s.script(ask)
	delta, reason := obj{"role": "assistant"}, "stop"
	var calls list
	for i, c := range t.Calls {
		args, _ := json.Marshal(c.Input)
		calls = append(calls, obj{"index": i, "id": t.IDs[i], "type": "function", "function": obj{"name": c.Name, "arguments": string(args)}})
	}
	if calls != nil {
		delta["tool_calls"], reason = calls, "tool_calls"
	} else {
		delta["content"] = t.Text
	}
	usage := obj{"prompt_tokens": max(t.Tokens, 100), "completion_tokens": 1, "total_tokens": max(t.Tokens, 100) + 1}
	chunk := func(d obj, why any) obj {
		return obj{"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": list{obj{"index": 0, "delta": d, "finish_reason": why}}, "usage": usage}
	}
	if q["stream"] == true {
		events(w, chunk(delta, nil), chunk(obj{}, reason), "[DONE]")
		return
	}
	reply(w, obj{"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": list{obj{"index": 0, "message": delta, "finish_reason": reason}}, "usage": usage})
}

// responses answers in the format of OpenAI's responses.
func (s *Server) responses(w http.ResponseWriter, q obj, ask Request) {
	for _, v := range array(q["input"]) {
		if o := object(v); o["type"] == "function_call_output" || o["type"] == "custom_tool_call_output" {
			ask.Results = append(ask.Results, Result{fmt.Sprint(o["call_id"]), said(o["output"])})
		}
	}
	t := s.script(ask)
	out := list{obj{"type": "response.created", "response": obj{"id": "r"}}}
	for i, c := range t.Calls {
		args, _ := json.Marshal(c.Input)
		item := obj{"type": "function_call", "id": t.IDs[i], "call_id": t.IDs[i], "name": c.Name, "arguments": string(args)}
		if space, name, ok := strings.Cut(c.Name, "/"); ok {
			item["namespace"], item["name"] = space, name
		}
		if program, ok := c.Input[""]; ok {
			item = obj{"type": "custom_tool_call", "id": t.IDs[i], "call_id": t.IDs[i], "name": c.Name, "input": program}
		}
		out = append(out, obj{"type": "response.output_item.done", "output_index": i, "item": item})
	}
	if t.Calls == nil {
		out = append(out, obj{"type": "response.output_item.done", "output_index": 0, "item": obj{"type": "message", "id": "m", "role": "assistant", "content": list{obj{"type": "output_text", "text": t.Text}}}})
	}
	n := max(t.Tokens, 100)
	out = append(out, obj{"type": "response.completed", "response": obj{"id": "r", "usage": obj{"input_tokens": n, "input_tokens_details": nil, "output_tokens": 1, "output_tokens_details": nil, "total_tokens": n + 1}}})
	events(w, out...)
}

// gemini answers in the format of generateContent.
func (s *Server) gemini(w http.ResponseWriter, q obj, ask Request, stream bool) {
	for _, v := range array(q["contents"]) {
		for _, p := range array(object(v)["parts"]) {
			if f := object(object(p)["functionResponse"]); f != nil {
				o := object(f["response"])
				text := said(o["output"])
				if e := said(o["error"]); e != "" {
					text = "error: " + e
				}
				ask.Results = append(ask.Results, Result{Text: text})
			}
		}
	}
	t := s.script(ask)
	var parts list
	for _, c := range t.Calls {
		parts = append(parts, obj{"functionCall": obj{"name": c.Name, "args": c.Input}})
	}
	if parts == nil {
		parts = list{obj{"text": t.Text}}
	}
	n := max(t.Tokens, 100)
	answer := obj{"candidates": list{obj{"content": obj{"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}},
		"usageMetadata": obj{"promptTokenCount": n, "candidatesTokenCount": 1, "totalTokenCount": n + 1}}
	if stream {
		events(w, answer)
		return
	}
	reply(w, answer)
}
