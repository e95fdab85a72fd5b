package hooks

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"cachebro/store/wire"
)

// Most prompts are typed by a person. Clients also send prompts themselves, each with its own id: when
// a sub-agent or a background command ends, when a timer fires, or when another agent sends a
// message. Such a prompt belongs to the prompt that caused it. These sources show who sent a
// prompt, most reliable first:
//   - the event's source, which the schema of Claude Code 2.1.332 contains but which that version
//     does not send yet;
//   - the tag at the beginning of the text, if it names the call or agent that the prompt
//     reports on;
//   - the prompt's entry in the transcript. It is written after the event, so the hooks look
//     for it at the prompt's tool calls.

// sender says who sent a prompt.
type sender int

const (
	unknownSender sender = iota
	person
	clientItself
)

// ownTags begin texts that a client itself sends.
var ownTags = []string{"<task-notification>", "<teammate-message"}

// sentBy returns who sent the event's prompt, and which tool calls and agents caused it.
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

// bySource returns the sender that a source means. An unknown source means the client, because all
// kinds of prompts by people are known.
func bySource(source string) sender {
	switch source {
	case "user", "sdk", "typed", "queued", "suggestion_accepted":
		return person
	}
	return clientItself
}

// tagged returns the text between a tag and its end tag.
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

// title returns the text of a prompt for the log, without the client's markup.
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

// lookBack is how many bytes at the end of a transcript are searched for a prompt. At the prompt's
// first tool calls, it is near the end.
const lookBack = 256 << 10

// tellOrigin tells the daemon who sent the current prompt, if the transcript already shows it.
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

// senderOf reads an entry of the transcript. Only an entry that begins a turn names a sender.
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
	case e.Turn == "unknown":
		return person
	}
	return unknownSender
}
