package probe

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// call is a tool call that the API answers with.
type call struct {
	Name  string
	Input map[string]any
}

// id of the n-th call; the result names it.
func id(n int) string { return fmt.Sprintf("toolu_probe%d", n) }

// api answers a conversation that has n results with the n-th call, so that
// retries and the client's other questions (titles, topics) do no harm.
type api struct {
	calls []call

	// mu guards got.
	mu  sync.Mutex
	got []string // text of the results, in the order of calls
}

// results are the texts that the model was given so far.
func (a *api) results() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.got...)
}

// maxRequest bytes of a request are read.
const maxRequest = 32 << 20

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest))
	var req struct {
		Model    string            `json:"model"`
		Stream   bool              `json:"stream"`
		Tools    []json.RawMessage `json:"tools"`
		Messages []struct {
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	case strings.HasSuffix(r.URL.Path, "/count_tokens"):
		writeJSON(w, map[string]any{"input_tokens": len(body) / 4})
		return
	case !strings.HasSuffix(r.URL.Path, "/messages"):
		http.NotFound(w, r)
		return
	case json.Unmarshal(body, &req) != nil:
		http.Error(w, "not JSON", http.StatusBadRequest)
		return
	}
	found := map[string]string{}
	for _, m := range req.Messages {
		for _, b := range blocks(m.Content) {
			if b.Type == "tool_result" {
				found[b.ToolUseID] = b.text()
			}
		}
	}
	var got []string
	for text, ok := found[id(0)]; ok; text, ok = found[id(len(got))] {
		got = append(got, text)
	}
	a.mu.Lock()
	if len(got) > len(a.got) {
		a.got = got
	}
	a.mu.Unlock()
	var next *call
	if len(got) < len(a.calls) && len(req.Tools) > 0 {
		next = &a.calls[len(got)]
	}
	reply(w, req.Model, req.Stream, len(got), next)
}

// block is a content block; Content of a tool_result is a string or blocks.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
}

func blocks(raw json.RawMessage) []block {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return []block{{Type: "text", Text: s}}
	}
	var bs []block
	if json.Unmarshal(raw, &bs) != nil {
		return nil
	}
	return bs
}

func (b block) text() string {
	var s strings.Builder
	for _, c := range blocks(b.Content) {
		s.WriteString(c.Text)
	}
	return s.String()
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client may be gone
}

// reply is one message of the model: the call, or a word.
func reply(w http.ResponseWriter, model string, stream bool, n int, c *call) {
	start, delta, reason := map[string]any{"type": "text", "text": ""}, map[string]any{"type": "text_delta", "text": "done"}, "end_turn"
	whole := map[string]any{"type": "text", "text": "done"}
	if c != nil {
		in, _ := json.Marshal(c.Input) // strings only: cannot fail
		start = map[string]any{"type": "tool_use", "id": id(n), "name": c.Name, "input": map[string]any{}}
		whole = map[string]any{"type": "tool_use", "id": id(n), "name": c.Name, "input": c.Input}
		delta, reason = map[string]any{"type": "input_json_delta", "partial_json": string(in)}, "tool_use"
	}
	usage := map[string]int{"input_tokens": 100, "output_tokens": 10}
	message := map[string]any{
		"id": fmt.Sprintf("msg_probe%d", n), "type": "message", "role": "assistant", "model": model,
		"content": []any{}, "stop_reason": nil, "stop_sequence": nil, "usage": usage,
	}
	if !stream {
		message["content"], message["stop_reason"] = []any{whole}, reason
		writeJSON(w, message)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range []map[string]any{
		{"type": "message_start", "message": message},
		{"type": "content_block_start", "index": 0, "content_block": start},
		{"type": "content_block_delta", "index": 0, "delta": delta},
		{"type": "content_block_stop", "index": 0},
		{"type": "message_delta", "delta": map[string]any{"stop_reason": reason, "stop_sequence": nil}, "usage": usage},
		{"type": "message_stop"},
	} {
		b, _ := json.Marshal(e) // cannot fail
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", e["type"], b)
	}
}
