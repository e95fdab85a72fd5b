package main

import (
	"fmt"
	"strings"
)

// delivered is the text that one tool call brought to the model.
type delivered struct {
	text  string // the tool result
	notes string // what the hooks added to the result
	found bool
}

func (d delivered) size() int { return len(d.text) + len(d.notes) }

// result returns what one tool call delivered. step is the number of the answer in the conversation
// that made the call, and callIndex is the index of the call in that answer. The result is taken
// from the first later request that contains it.
func (a *api) result(script string, step, callIndex int) delivered {
	es := a.of(script)
	for i, e := range es {
		if e.step != step || callIndex >= len(e.ids) {
			continue
		}
		for _, later := range es[i+1:] {
			d := later.body.find(e.ids[callIndex])
			if d.found {
				d.notes = strings.Join(newNotes(e.body, later.body), "\n")
				return d
			}
		}
	}
	return delivered{}
}

// results returns how many bytes of tool results and of hook texts reached the model. Each text is
// counted once, although later requests repeat it.
func (a *api) results() (bytes int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	seen := map[string]bool{}
	before := map[string]request{}
	for _, e := range a.exchanges {
		if e.beside {
			continue
		}
		for _, m := range e.body.Messages {
			for _, b := range m.blocks() {
				if b.Type == "tool_result" && !seen[b.ToolUseID] {
					seen[b.ToolUseID] = true
					bytes += len(b.text())
				}
			}
		}
		for _, note := range newNotes(before[e.script], e.body) {
			bytes += len(note)
		}
		before[e.script] = e.body
	}
	return bytes
}

func (r request) find(id string) delivered {
	for _, m := range r.Messages {
		for _, b := range m.blocks() {
			if b.Type == "tool_result" && b.ToolUseID == id {
				return delivered{text: b.text(), found: true}
			}
		}
	}
	return delivered{}
}

// newNotes returns the lines that hooks added to a request, without those that the previous request
// already had.
func newNotes(before, after request) []string {
	old := before.words()
	var out []string
	for _, line := range strings.Split(after.words(), "\n") {
		if strings.Contains(line, "hook additional context") && !strings.Contains(old, line) {
			out = append(out, line)
		}
	}
	return out
}

// words returns all text of a request except tool results.
func (r request) words() string {
	var b strings.Builder
	for _, m := range r.Messages {
		for _, bl := range m.blocks() {
			if bl.Type == "text" {
				b.WriteString(bl.Text + "\n")
			}
		}
	}
	return b.String()
}

// checks collects the results of checks and counts the failures.
type checks struct {
	failed, total int
	lines         []string
	late          bool // a hook's time ran out during the run
}

func (c *checks) that(ok bool, what string, args ...any) {
	c.total++
	word := "ok  "
	if !ok {
		word, c.failed = "FAIL", c.failed+1
	}
	c.lines = append(c.lines, fmt.Sprintf("%s  %s", word, fmt.Sprintf(what, args...)))
}

func (c *checks) print() {
	for _, l := range c.lines {
		fmt.Println(l)
	}
}

func head(s string) string {
	s = strings.ReplaceAll(s, "\n", "⏎")
	if len(s) > 160 {
		return s[:160] + "…"
	}
	return s
}

// newest is like result. If a conversation ran more than once, newest uses the latest run.
func (a *api) newest(script string, step, callIndex int) delivered {
	es := a.of(script)
	for i := len(es) - 1; i >= 0; i-- {
		if e := es[i]; e.step == step && callIndex < len(e.ids) && i+1 < len(es) {
			d := es[i+1].body.find(e.ids[callIndex])
			d.notes = strings.Join(newNotes(e.body, es[i+1].body), "\n")
			return d
		}
	}
	return delivered{}
}
