package main

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// request holds the fields of a Messages API request that are used here.
type request struct {
	Model    string    `json:"model"`
	Stream   bool      `json:"stream"`
	Messages []message `json:"messages"`
	Tools    []struct {
		Name string `json:"name"`
	} `json:"tools"`
	System json.RawMessage `json:"system"`
}

type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// block is a content block. The Content of a tool_result is a string or blocks.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	ToolUseID string          `json:"tool_use_id,omitempty"`
	Content   json.RawMessage `json:"content,omitempty"`
	IsError   bool            `json:"is_error,omitempty"`
}

// blocks returns the content as blocks; a plain string is one text block.
func (m message) blocks() []block {
	return blocksOf(m.Content)
}

func blocksOf(raw json.RawMessage) []block {
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

// text joins the texts in a tool result.
func (b block) text() string {
	out := ""
	for _, c := range blocksOf(b.Content) {
		out += c.Text
	}
	return out
}

// whole returns the answer to a request without streaming.
func whole(model, id string, s step, ids []string) map[string]any {
	content := []map[string]any{}
	if s.text != "" {
		content = append(content, map[string]any{"type": "text", "text": s.text})
	}
	for i, c := range s.calls {
		content = append(content, map[string]any{"type": "tool_use", "id": ids[i], "name": c.Name, "input": c.Input})
	}
	return map[string]any{
		"id": id, "type": "message", "role": "assistant", "model": model,
		"content": content, "stop_reason": stopReason(s), "stop_sequence": nil, "usage": usage(s),
	}
}

func stopReason(s step) string {
	if len(s.calls) > 0 {
		return "tool_use"
	}
	return "end_turn"
}

func usage(s step) map[string]int {
	return map[string]int{"input_tokens": s.usage, "output_tokens": 10, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
}

// stream sends the answer as server-sent events.
func stream(w http.ResponseWriter, model, id string, s step, ids []string) {
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(event string, v map[string]any) {
		v["type"] = event
		b, _ := json.Marshal(v)
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event, b)
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
	}
	send("message_start", map[string]any{"message": map[string]any{
		"id": id, "type": "message", "role": "assistant", "model": model,
		"content": []any{}, "stop_reason": nil, "stop_sequence": nil, "usage": usage(s),
	}})
	i := 0
	if s.text != "" {
		send("content_block_start", map[string]any{"index": i, "content_block": map[string]any{"type": "text", "text": ""}})
		send("content_block_delta", map[string]any{"index": i, "delta": map[string]any{"type": "text_delta", "text": s.text}})
		send("content_block_stop", map[string]any{"index": i})
		i++
	}
	for k, c := range s.calls {
		in, _ := json.Marshal(c.Input)
		send("content_block_start", map[string]any{"index": i, "content_block": map[string]any{"type": "tool_use", "id": ids[k], "name": c.Name, "input": map[string]any{}}})
		send("content_block_delta", map[string]any{"index": i, "delta": map[string]any{"type": "input_json_delta", "partial_json": string(in)}})
		send("content_block_stop", map[string]any{"index": i})
		i++
	}
	send("message_delta", map[string]any{"delta": map[string]any{"stop_reason": stopReason(s), "stop_sequence": nil}, "usage": usage(s)})
	send("message_stop", map[string]any{})
}
