package hooks

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestSentBy(t *testing.T) {
	const note = "<task-notification>\n<task-id>a3e</task-id>\n<tool-use-id>toolu_2</tool-use-id>\n<summary>Agent \"x\" finished</summary>\n</task-notification>"
	for _, c := range []struct {
		text, source string
		want         sender
		causes       []string
		title        string
	}{
		{"fix it", "", unknownSender, nil, "fix it"},
		{"fix it", "user", person, nil, "fix it"},
		{"fix it", "sdk", person, nil, "fix it"},
		{"look at the build", "schedule_wakeup", clientItself, nil, "look at the build"},
		{"x", "a kind that comes later", clientItself, nil, "x"},
		{note, "", clientItself, []string{"toolu_2", "a3e"}, `Agent "x" finished`},
		{note, "system", clientItself, []string{"toolu_2", "a3e"}, `Agent "x" finished`},
		{note, "user", person, []string{"toolu_2", "a3e"}, note}, // a person has pasted such a text
		{`<teammate-message teammate_id="b">do it</teammate-message>`, "", clientItself, nil, "sent by the client"},
		{"<div> is not closed, mend it", "", unknownSender, nil, "<div> is not closed, mend it"},
		{"<task-notification> is what log shows", "user", person, nil, "<task-notification> is what log shows"},
	} {
		e := &call{scene: scene{event: event{text: c.text, source: c.source}}}
		by, causes := e.sentBy()
		if by != c.want || !slices.Equal(causes, c.causes) {
			t.Errorf("%q %q: %v %q", c.text, c.source, by, causes)
		}
		if title := e.title(by); title != c.title {
			t.Errorf("%q: title %q", c.text, title)
		}
	}
}

// The entries are as Claude Code 2.1.332 writes them.
func TestSenderInTranscript(t *testing.T) {
	file := filepath.Join(t.TempDir(), "t.jsonl")
	entry := func(prompt, rest string) string {
		return `{"type":"user","message":{"content":"x"},"promptId":"` + prompt + `"` + rest + "}\n"
	}
	text := entry("sdk", `,"turnOrigin":"sdk","promptSource":"sdk"`) +
		entry("sdk", "") + // a tool's result
		entry("typed", `,"turnOrigin":"human","origin":{"kind":"human"},"promptSource":"typed"`) +
		entry("old", `,"promptSource":"typed"`) +
		entry("agent", `,"turnOrigin":"task_notification","origin":{"kind":"task-notification"},"promptSource":"system"`) +
		entry("goal", `,"isMeta":true,"turnOrigin":"auto_continuation","origin":{"kind":"auto-continuation"},"promptSource":"system"`) +
		entry("timer", `,"turnOrigin":"scheduled","promptSource":"system"`) +
		entry("mate", `,"turnOrigin":"peer","origin":{"kind":"peer"}`) +
		entry("later", `,"turnOrigin":"a-kind-that-comes-later"`) +
		entry("unknown", `,"turnOrigin":"unknown"`) +
		entry("result", "")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for prompt, want := range map[string]sender{
		"sdk": person, "typed": person, "old": person, "unknown": person, "agent": clientItself, "goal": clientItself, "timer": clientItself,
		"mate": clientItself, "later": clientItself, "result": unknownSender, "none": unknownSender,
	} {
		if by := senderIn(file, prompt); by != want {
			t.Errorf("%s: %v, want %v", prompt, by, want)
		}
	}
	if by := senderIn(file+".not", "sdk"); by != unknownSender {
		t.Errorf("no transcript: %v", by)
	}
}
