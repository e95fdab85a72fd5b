package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"cachebro/store"
	"cachebro/store/readers"
)

// A session is played in the form in which each client would report it. playhooks.go plays Claude
// Code. This file describes how the other clients differ: the tool that shows a file, the names and
// fields of events, the way in which a text is replaced, and the event that reports a loss of
// context.
const (
	claude   = "claude"
	codex    = "codex"    // reads with cat and sed, and writes its own record of the session
	opencode = "opencode" // a plugin that sees each request
	gemini   = "gemini"   // does not report what is still in its model's context, so no text may be shortened
)

var clientNames = []string{claude, codex, opencode, gemini}

// codexCut is the length in bytes to which Codex cuts a result.
const codexCut = 10_000

// sayings are the names that Gemini CLI uses for events and tools.
var sayings = map[string]string{
	"UserPromptSubmit": "BeforeAgent", "Stop": "AfterAgent", "PreToolUse": "BeforeTool", "PostToolUse": "AfterTool", "PreCompact": "PreCompress",
	"Bash": "run_shell_command", "Read": "read_file", "Edit": "replace", "Write": "write_file",
}

// dialect turns an event of Claude Code into the event that the played client sends. It returns
// false if the client has no such event.
func (pl *player) dialect(agent int, ev fields) bool {
	name, _ := ev["hook_event_name"].(string)
	switch pl.o.client {
	case codex:
		switch name {
		case "SubagentStart", "SubagentStop", "PostToolBatch", "SessionEnd":
			return false
		}
		ev["turn_id"] = ev["prompt_id"]
		delete(ev, "prompt_id")
		ev["transcript_path"] = pl.rollout(agent).name
		if r, ok := ev["tool_response"].(fields); ok {
			ev["tool_response"] = r["stdout"]
		}
	case opencode:
		switch name {
		case "PreCompact", "PostCompact", "SessionEnd":
			return false
		}
		delete(ev, "transcript_path")
		if tool, ok := ev["tool_name"].(string); ok {
			ev["tool_name"] = strings.ToLower(tool)
		}
	case gemini:
		if name == "PostToolBatch" || strings.HasPrefix(name, "Subagent") || name == "PostCompact" {
			return false
		}
		delete(ev, "transcript_path")
		delete(ev, "prompt_id")
		delete(ev, "agent_id")
		for _, key := range []string{"hook_event_name", "tool_name"} {
			if said := sayings[fmt.Sprint(ev[key])]; said != "" {
				ev[key] = said
			}
		}
		if r, ok := ev["tool_response"].(fields); ok {
			ev["tool_response"] = fields{"llmContent": r["stdout"]}
		}
	}
	return true
}

// rollout returns the record of a thread in Codex's own form. The record is next to the transcript.
func (pl *player) rollout(agent int) *transcript {
	t := pl.records[agent]
	if t == nil {
		t = &transcript{name: filepath.Join(pl.p.base, fmt.Sprintf("rollout-%d.jsonl", agent))}
		t.f, t.err = os.Create(t.name)
		pl.records[agent] = t
		t.record("session_meta", fields{"id": session})
	}
	return t
}

func (t *transcript) record(kind string, payload fields) {
	b, err := json.Marshal(fields{"timestamp": "2026-11-23T09:46:43.402Z", "type": kind, "payload": payload})
	if err == nil && t.f != nil {
		_, err = t.f.Write(append(b, '\n'))
	}
	if t.err == nil {
		t.err = err
	}
}

// recordCall records a command that Codex is about to run.
func (pl *player) recordCall(agent int, command string) {
	if pl.o.client != codex {
		return
	}
	args, _ := json.Marshal(fields{"cmd": command, "workdir": pl.p.dir}) // a map of strings can always be encoded
	pl.rollout(agent).record("response_item", fields{"type": "function_call", "name": "exec_command", "call_id": pl.last, "arguments": string(args)})
}

// recordResult records the result that Codex's model received.
func (pl *player) recordResult(agent int, own bool, text string) {
	if own {
		text = "Exit code: 0\nWall time: 0.1 seconds\nOutput:\n" + text
	}
	pl.rollout(agent).record("response_item", fields{"type": "function_call_output", "call_id": pl.last, "output": text})
}

// lost reports a loss of context as the client does. The conversation already lacks the lost
// messages.
func (pl *player) lost(agent int) error {
	switch pl.o.client {
	case codex:
		pl.rollout(agent).record("compacted", fields{"message": ""})
	case opencode:
		if agent != 0 { // a sub-agent's context begins, and the daemon gets no other event for it
			_, err := pl.hook(agent, "SubagentStart", nil)
			return err
		}
		alive := []string{}
		for _, m := range pl.agents[agent].said {
			if m.call != "" && !slices.Contains(alive, m.call) {
				alive = append(alive, m.call)
			}
		}
		_, err := pl.hook(agent, "PostToolBatch", fields{"tool_calls": []fields{}, "alive": alive})
		return err
	}
	return nil
}

// openCodeText returns the text with which OpenCode's read shows lines.
func openCodeText(path string, lines []string, first, total int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "<path>%s</path>\n<type>file</type>\n<content>\n", path)
	for i, l := range lines {
		fmt.Fprintf(&b, "%d: %s\n", first+i, l)
	}
	fmt.Fprintf(&b, "\n(End of file - total %d lines)\n</content>", total)
	return b.String()
}

// readOpenCode plays OpenCode's read, which does not show an empty line after the last
// newline.
func (pl *player) readOpenCode(st step, m *mind, a ask) error {
	total := len(a.now)
	ends := total > 1 && a.now[total-1] == ""
	if ends {
		total--
	}
	last := min(a.last, total)
	name := pl.p.path(a.path)
	lines := a.now[a.first-1 : last]
	a.full = openCodeText(name, lines, a.first, total)
	best, expiring, err := pl.best(st, m, a, func(r readers.Answer) string { return numbered(r.Text, r.Start) + "\n" + r.Note })
	if err != nil {
		return err
	}
	input := fields{"filePath": name, "file_path": name}
	if !a.whole {
		input["offset"], input["limit"] = a.first, last-a.first+1
	}
	out, err := pl.hook(st.agent, "PostToolUse", fields{"tool_name": "read", "tool_use_id": pl.last, "tool_input": input, "tool_response": fields{"output": a.full, "metadata": fields{}}})
	if err != nil {
		return err
	}
	kind, final := "full", a.full
	runs := []lineRun{{at: a.first, shown: lines}}
	if out.Output != "" {
		final = out.Output
		kind = "changed"
		if strings.HasPrefix(final, "cachebro: not repeated") {
			kind = "unchanged"
			runs, err = repeated(final)
		} else {
			runs, err = notedNumbers(final)
		}
	}
	if a.whole && ends { // OpenCode appends "End of file", so the reader learns where the file ends
		runs = append(runs, lineRun{at: len(a.now), shown: a.now[len(a.now)-1:]})
	}
	pl.delivered(st, m, a, runs, err)
	pl.score(st, a, kind, pl.o.tokens(final), best, expiring)
	return pl.batch(st.agent, "read", input, final)
}

// notedNumbers reads a note that is followed by numbered lines.
func notedNumbers(text string) ([]lineRun, error) {
	note, body, _ := strings.Cut(text, "\n")
	first, lines := 0, strings.Split(body, "\n")
	for i, l := range lines {
		number, rest, ok := strings.Cut(l, ": ")
		n, err := strconv.Atoi(number)
		if !ok || err != nil || i > 0 && n != first+i {
			return nil, fmt.Errorf("%q is no line of the file", l)
		}
		if i == 0 {
			first = n
		}
		lines[i] = rest
	}
	return noted(note, first, lines)
}

// best returns the numbers of tokens that an oracle would have sent for a read that shows lines
// without line numbers.
func (pl *player) best(st step, m *mind, a ask, send func(readers.Answer) string) (best, expiring int, err error) {
	if pl.outside[st.file] {
		best = pl.o.tokens(a.full)
		return best, best, nil
	}
	return pl.oracle.least(m, a, func(text string, q *readers.Request) {
		lines := strings.Split(text, "\n")
		first, last := 1, len(lines)
		if !a.whole {
			first, last = a.first, min(a.last, len(lines))
		}
		q.Offset, q.Limit = 0, 0
		shown := strings.Join(lines[first-1:last], "\n")
		if lines[last-1] == "" && last < len(lines) { // show the newline of an empty last line, which would otherwise be invisible
			shown += "\n"
		}
		q.Rewrite = &readers.Rewrite{Rendering: store.RenderRaw, StartLine: first, NumLines: last - first + 1, Text: shown}
		if !a.whole {
			q.Offset, q.Limit = first, last-first+1
		}
	}, send)
}
