package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// firstTokens is the size of a context before any read: the system prompt and the client's own
// tools.
const firstTokens = 18_000

// transcript is the client's record of one context. It is a file of entries, each of which names
// its parent. The entry of an answer contains the number of tokens in the request. Unless the
// session is varied, the client clears nothing silently, and only a compaction shrinks the context.
type transcript struct {
	name   string
	agent  int
	f      *os.File
	n      int
	last   string // the parent of the next entry
	tokens int    // tokens of the context
	count  counter
	err    error
}

// transcript returns the transcript of an agent. Each sub-agent has its own file.
func (pl *player) transcript(agent int) *transcript {
	t := pl.logs[agent]
	if t == nil {
		t = &transcript{name: filepath.Join(pl.p.base, session+".jsonl"), agent: agent, tokens: firstTokens, count: pl.o.tokens}
		if agent != 0 {
			t.name = filepath.Join(pl.p.base, session, "subagents", fmt.Sprintf("agent-agent%d.jsonl", agent))
		}
		t.err = os.MkdirAll(filepath.Dir(t.name), 0o700)
		if t.err == nil {
			t.f, t.err = os.Create(t.name)
		}
		pl.logs[agent] = t
	}
	return t
}

// call begins the next tool call.
func (pl *player) call(agent int) {
	pl.n++
	pl.last = fmt.Sprintf("toolu_%06d", pl.n)
	pl.transcript(agent).use(pl.last)
	pl.bills[agent].request()
}

func (t *transcript) prompt(text string) {
	t.add(fields{"type": "user", "message": fields{"role": "user", "content": text}})
}

// use adds an answer that calls a tool.
func (t *transcript) use(id string) {
	t.add(fields{"type": "assistant", "message": fields{"id": "msg_" + id, "model": "replayed", "usage": fields{"input_tokens": 2, "cache_read_input_tokens": t.tokens},
		"content": []fields{{"type": "tool_use", "id": id, "input": fields{}}}}})
	t.tokens += 60
}

// result adds the result that the model received for a call.
func (t *transcript) result(id, text string) {
	t.tokens += t.count(text)
	t.add(fields{"type": "user", "message": fields{"role": "user", "content": []fields{{"type": "tool_result", "tool_use_id": id, "content": text}}}})
}

// other adds a call and its result. It is used if only the size of the result is known.
func (t *transcript) other(chars int) {
	id := fmt.Sprintf("toolu_other%d", t.n)
	t.use(id)
	t.add(fields{"type": "user", "message": fields{"role": "user", "content": []fields{{"type": "tool_result", "tool_use_id": id, "content": strings.Repeat("abc ", chars/4)}}}})
	t.tokens += chars * 10 / 34
}

func (t *transcript) compacted() { t.tokens = firstTokens + 2000 }

// add writes an entry.
func (t *transcript) add(entry fields) {
	parent := any(nil)
	if t.last != "" {
		parent = t.last
	}
	t.n++
	t.last = fmt.Sprintf("u%d", t.n)
	entry["uuid"], entry["parentUuid"], entry["isSidechain"] = t.last, parent, t.agent != 0
	b, err := json.Marshal(entry)
	if err == nil && t.f != nil {
		_, err = t.f.Write(append(b, '\n'))
	}
	t.err = errors.Join(t.err, err)
}

func (t *transcript) close() error {
	if t.f != nil {
		t.err = errors.Join(t.err, t.f.Close())
	}
	return t.err
}
