package hooks

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"cachebro/store/wire"
)

// userPromptSubmit records the prompt, so that later changes are attributed to it. It indexes the
// transcript. It leaves the call of checkChain to the prompt's first tool call, because the entry
// that shows a rewind, and often the last answers, are written only after this event.
func userPromptSubmit(ctx context.Context, c *call) answer {
	by, causes := c.sentBy()
	known, err := c.tell(ctx, wire.SessionEvent{Event: "prompt", Text: c.recordable(c.title(by), 400), Given: tokensOf(len(c.text)),
		Continues: by == clientItself, Causes: causes, Origin: by == unknownSender && c.opt.client == ""})
	if c.opt.client == "" { // other clients' transcripts have another form
		_ = c.chain().advance(c.transcript)
	}
	if err == nil && !known.Mounted && c.dead() {
		return answer{out: output{message: deadLine, context: c.deadText(ctx)}}
	}
	comments, ids := c.comments(ctx) // first, because these must not be cut
	c.spend(ctx, "comments", comments)
	news := ""
	if err == nil && (c.opt.client == "" || c.opt.dialect().Record) {
		news = newsBlock(known.News)
		c.spend(ctx, "news", news)
	}
	if comments != "" && news != "" {
		comments += "\n"
	}
	news = comments + news
	a := answer{}
	switch {
	case known.Trouble != "":
		a.out.message = troubleLine(known.Trouble)
	case known.MountEnded && !c.isMountpoint():
		a.out.message = endedLine
	}
	if len(ids) > 0 {
		a.sent = func() { c.delivered(ids) }
	}
	a.out.context = news
	if !c.opt.index {
		return a
	}
	text := c.promptIndex(ctx)
	c.spend(ctx, "prompt-index", text)
	if news != "" && text != "" {
		news += "\n\n"
	}
	a.out.context = news + text
	return a
}

// maxNews bounds the text about others' changes that is added to a prompt, in characters.
const maxNews = 1000

// newsBlock tells the model which files have changed since it was shown them, or returns "".
func newsBlock(news []wire.News) string {
	const head, end = "cachebro: changed by others since you were shown them:", "\nRead a file again for what is not shown here."
	var b strings.Builder
	for i, n := range news {
		line := "\n- " + clean(n.Text)
		for l := range strings.Lines(n.Diff) {
			line += "\n  " + clean(strings.TrimRight(l, "\r\n"))
		}
		if i == 0 {
			b.WriteString(head)
		} else if more := fmt.Sprintf("\n- and %d more: cachebro log", len(news)-i); utf16Len(b.String()+line+more+end) > maxNews {
			b.WriteString(more)
			break
		}
		b.WriteString(line)
	}
	if b.Len() == 0 {
		return ""
	}
	return cutText(b.String(), maxNews-utf16Len(end)) + end
}

// The client writes its transcript asynchronously. On a busy machine, the entry of an event's call
// may be written a moment after the event.
const (
	chainTries = 4
	chainWait  = 15 * time.Millisecond
)

// checkChain tells the daemon, once per prompt, which tool calls are still part of the current
// call's conversation. Texts shown by other calls (rewound, branched off) are not in the reader's
// context. If the transcript cannot be read, the list is empty, and the daemon drops everything.
// Sub-agents need no check, because their context only grows or ends. checkChain returns false if the
// daemon did not get the list.
func (c *call) checkChain(ctx context.Context) bool {
	if c.agent != "" || c.toolUse == "" || c.opt.client != "" {
		return true
	}
	if c.chain().wasChecked(c.prompt) {
		return true
	}
	// Hooks of parallel calls run at the same time, and the transcript may not have all these calls
	// yet. A second check could drop a text that the first call recorded. So one hook checks and
	// the others wait.
	unlock := c.lockChain()
	defer unlock()
	if c.breaker.open() {
		return false
	}
	ch := c.chain()
	if ch.wasChecked(c.prompt) {
		return true
	}
	ids := ch.alive(c.transcript, c.toolUse)
	_, err := os.Stat(c.transcript)
	for i := 0; len(ids) == 0 && err == nil && i < chainTries; i++ {
		time.Sleep(chainWait)
		ids = ch.alive(c.transcript, c.toolUse)
	}
	if _, err := c.tell(ctx, wire.SessionEvent{Event: "prompt", Alive: ids, Checked: true}); err != nil {
		return false
	}
	ch.markChecked(c.prompt)
	return true
}
