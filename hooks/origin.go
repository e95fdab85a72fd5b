package hooks

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"cachebro/store/wire"
)

// A prompt is what a person typed. Clients also send prompts by themselves, each with its own
// id: when a sub-agent or a background command ends, when a timer fires, when another agent
// has something to say. Those belong to the prompt that caused them. These show who sent a
// prompt, the most reliable first:
//   - the event's source (Claude Code 2.1.332 has it in its schema, "while the field rolls
//     out", and sends none yet);
//   - the tag that the text begins with, for the kinds that name what they tell of;
//   - the prompt's entry in the transcript, which is written after the event: it is looked
//     for at the prompt's tool calls.

// sender says who sent a prompt.
type sender int

const (
	unknownSender sender = iota
	person
	clientItself
)

// ownTags begin the texts that a client sends by itself.
var ownTags = []string{"<task-notification>", "<teammate-message"}

// sentBy says who sent the event's prompt, and which tool calls and agents caused it.
func (c *call) sentBy() (by sender, causes []string) {
	text := strings.TrimSpace(c.text)
	for _, tag := range ownTags {
		if strings.HasPrefix(text, tag) {
			for _, name := range []string{"tool-use-id", "task-id"} {
				if id := tagged(text, name); id != "" {
					causes = append(causes, id)
				}
			}
			by = clientItself
		}
	}
	if c.source != "" {
		by = bySource(c.source)
	}
	return by, causes
}

// bySource returns the sender that a source names. An unknown source is the client's: the
// few kinds of prompts that a person sends are all known.
func bySource(source string) sender {
	switch source {
	case "user", "sdk", "typed", "queued", "suggestion_accepted":
		return person
	}
	return clientItself
}

// tagged returns what stands between a tag and its end.
func tagged(text, tag string) string {
	_, rest, ok := strings.Cut(text, "<"+tag+">")
	if !ok {
		return ""
	}
	inside, _, ok := strings.Cut(rest, "</"+tag+">")
	if !ok {
		return ""
	}
	return strings.TrimSpace(inside)
}

// title is what the log shows of a prompt: never the markup of a client.
func (c *call) title(by sender) string {
	if by != clientItself {
		return c.text
	}
	if s := tagged(c.text, "summary"); s != "" {
		return s
	}
	if strings.HasPrefix(strings.TrimSpace(c.text), "<") {
		return "sent by the client"
	}
	return c.text
}

// lookBack is how many bytes at the end of a transcript are searched for a prompt. When its
// first tool calls run, the prompt is near the end.
const lookBack = 256 << 10

// tellOrigin tells the daemon who sent the present prompt, as soon as the transcript says.
func (c *call) tellOrigin(ctx context.Context) {
	if by := senderIn(c.transcript, c.prompt); by != unknownSender {
		_, _ = c.tell(ctx, wire.SessionEvent{Event: "origin", Continues: by == clientItself})
	}
}

// senderIn returns who sent a prompt according to the client's transcript.
func senderIn(transcript, prompt string) sender {
	mark := []byte(`"promptId":"` + prompt + `"`)
	for line := range bytes.Lines(endOf(transcript)) {
		if !bytes.Contains(line, mark) {
			continue
		}
		if by := senderOf(line); by != unknownSender {
			return by
		}
	}
	return unknownSender
}

// senderOf reads an entry of the transcript. Only one that begins a turn names a sender.
func senderOf(line []byte) sender {
	var e struct {
		Type   string `json:"type"`
		Turn   string `json:"turnOrigin"`
		Source string `json:"promptSource"`
		Origin struct {
			Kind string `json:"kind"`
		} `json:"origin"`
	}
	if json.Unmarshal(line, &e) != nil || e.Type != "user" {
		return unknownSender
	}
	switch {
	case e.Turn == "human" || e.Turn == "sdk" || e.Origin.Kind == "human":
		return person
	case e.Turn != "" && e.Turn != "unknown", e.Origin.Kind != "":
		return clientItself
	case e.Source != "":
		return bySource(e.Source)
	case e.Turn != "":
		return person
	}
	return unknownSender
}
