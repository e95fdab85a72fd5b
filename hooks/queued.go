package hooks

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"time"

	"cachebro/store/wire"
)

// A prompt that is typed while Claude Code works does not wait for the end of the turn. The model
// gets it with the next result. No event reports it, and later events have the id of the prompt
// that began the turn. The transcript contains the prompt, before the next call.

// typedMeanwhile assigns the event to the last prompt typed in its turn.
func (e *event) typedMeanwhile(env Env, opt options) {
	ofMain := e.agent == "" || e.name == "SubagentStart" // the main loop starts sub-agents
	if opt.client != "" || e.session == "" || e.prompt == "" || !ofMain {
		return
	}
	turn, typed := env.Paths.QueuedPrompt(e.session)
	if e.name == "PreToolUse" {
		id, text := queuedIn(e.transcript, e.prompt, e.toolUse)
		if id != "" && (turn != e.prompt || typed != id) && env.Paths.NoteQueuedPrompt(e.session, e.prompt, id) == nil {
			turn, typed = e.prompt, id
			e.queued = text
		}
	}
	if turn == e.prompt {
		e.prompt = typed
	}
}

// tellQueued registers a prompt that no event has reported.
func (c *call) tellQueued(ctx context.Context) {
	if c.queued != "" {
		_, _ = c.tell(ctx, wire.SessionEvent{Event: "prompt", Text: c.recordable(c.queued, 400), Given: tokensOf(len(c.queued)), NoNews: true})
	}
}

// transcriptEntry holds the fields of a transcript's entry that we use.
type transcriptEntry struct {
	Prompt     string `json:"promptId"`
	Sidechain  bool   `json:"isSidechain"`
	Attachment struct {
		Type   string          `json:"type"`
		Prompt json.RawMessage `json:"prompt"` // text, or blocks
		ID     string          `json:"source_uuid"`
		Mode   string          `json:"commandMode"`
		Meta   bool            `json:"isMeta"`
		Origin struct {
			Kind string `json:"kind"`
		} `json:"origin"`
	} `json:"attachment"`
}

// typed reports whether a person typed the text that the entry adds to the turn. Other entries,
// such as the end of a sub-agent, belong to the prompt being answered.
func (e *transcriptEntry) typed() bool {
	a := &e.Attachment
	if a.Type != "queued_command" || a.ID == "" || a.Meta {
		return false
	}
	return a.Mode == "prompt" && (a.Origin.Kind == "" || a.Origin.Kind == "human")
}

// queuedIn finds the last prompt that a person typed in a turn before a call, near the end of the
// transcript.
func queuedIn(transcript, turn, toolUse string) (id, text string) {
	tail := endOf(transcript)
	// While a prompt is queued, only the call's entry shows whether the prompt was delivered before
	// it. The client writes that entry a moment late.
	for i := 0; waits(tail) && !bytes.Contains(tail, []byte(toolUse)) && i < chainTries; i++ {
		time.Sleep(chainWait)
		tail = endOf(transcript)
	}
	if !bytes.Contains(tail, []byte(`"queued_command"`)) {
		return "", ""
	}
	now := turn // the turn of the current entry; the first entries in tail may not name their turn
	for line := range bytes.Lines(tail) {
		if !bytes.Contains(line, []byte(`"queued_command"`)) && !bytes.Contains(line, []byte(`"promptId"`)) {
			continue
		}
		var e transcriptEntry
		if json.Unmarshal(line, &e) != nil || e.Sidechain {
			continue
		}
		if e.Prompt != "" {
			now = e.Prompt
		}
		switch {
		case now != turn:
			id, text = "", "" // the prompt found so far belongs to an earlier turn
		case e.typed():
			id, text = e.Attachment.ID, joinText(e.Attachment.Prompt)
		}
	}
	return id, text
}

// waits reports whether a prompt is in the client's queue.
func waits(tail []byte) bool {
	count := func(operation string) int { return bytes.Count(tail, []byte(`"operation":"`+operation+`"`)) }
	return count("enqueue") > count("dequeue")+count("remove")
}

// endOf reads the end of a transcript, or returns nil.
func endOf(transcript string) []byte {
	f, err := os.Open(transcript)
	if err != nil {
		return nil
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil
	}
	tail, err := io.ReadAll(io.NewSectionReader(f, max(0, fi.Size()-lookBack), lookBack))
	if err != nil {
		return nil
	}
	return tail
}
