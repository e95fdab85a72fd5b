package main

import "encoding/json"

// request holds the fields of a Messages API request that are used here.
type request struct {
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

// blocks returns the content as blocks. A plain string becomes one text block.
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
