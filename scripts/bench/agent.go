//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
)

// agent plays a client that has hooks and a transcript. The transcript proves to cachebro that a
// context still contains the texts that were sent to it.
type agent struct {
	binary, dir string
	transcript  *os.File
	entries     int
	call        map[string]any // the tool call in progress
}

func newAgent(binary, dir string) (*agent, error) {
	f, err := os.CreateTemp("", "transcript-*.jsonl")
	if err != nil {
		return nil, err
	}
	a := &agent{binary: binary, dir: dir, transcript: f}
	if err := a.event("SessionStart", map[string]any{"source": "startup"}); err != nil {
		a.close()
		return nil, err
	}
	return a, nil
}

func (a *agent) close() {
	a.transcript.Close()
	os.Remove(a.transcript.Name())
}

// begin reports that the model asks for a call.
func (a *agent) begin(id, tool string, input any) error {
	a.call = map[string]any{"tool_name": tool, "tool_use_id": id, "tool_input": input}
	asked := map[string]any{"type": "tool_use", "id": id, "name": tool, "input": input}
	if err := a.said("assistant", map[string]any{"id": "m" + id, "content": []any{asked}}); err != nil {
		return err
	}
	return a.event("PreToolUse", a.call)
}

// end reports the answer that the model was given.
func (a *agent) end(text string) error {
	a.call["tool_response"] = text
	if err := a.event("PostToolBatch", map[string]any{"tool_calls": []any{a.call}}); err != nil {
		return err
	}
	given := map[string]any{"type": "tool_result", "tool_use_id": a.call["tool_use_id"], "content": text}
	return a.said("user", map[string]any{"role": "user", "content": []any{given}})
}

// said appends an entry to the transcript, as a child of the previous entry.
func (a *agent) said(kind string, message any) error {
	e := map[string]any{"uuid": fmt.Sprint("e", a.entries+1), "parentUuid": nil, "type": kind, "isSidechain": false, "message": message}
	if a.entries > 0 {
		e["parentUuid"] = fmt.Sprint("e", a.entries)
	}
	a.entries++
	return json.NewEncoder(a.transcript).Encode(e)
}

func (a *agent) event(name string, more map[string]any) error {
	say := map[string]any{"session_id": "bench", "prompt_id": "bench-1", "transcript_path": a.transcript.Name(), "cwd": a.dir, "hook_event_name": name}
	maps.Copy(say, more)
	b, err := json.Marshal(say)
	if err != nil {
		return err
	}
	cmd := exec.Command(a.binary, "hook")
	cmd.Dir, cmd.Stdin = a.dir, bytes.NewReader(b)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("hook %s: %w: %s", name, err, out)
	}
	return nil
}
