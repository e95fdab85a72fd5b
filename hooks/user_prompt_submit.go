package hooks

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"cachebro/store/wire"
)

// userPromptSubmit notes the prompt, so that what follows is joined to it. It reads
// the transcript up to here, but the transcript is judged only at the prompt's first
// tool call: a person may have gone back in the conversation before this prompt, and
// the client writes the entry that shows it, and often the last answers too, after
// this event.
func userPromptSubmit(ctx context.Context, c *call) answer {
	by, causes := c.sentBy()
	known, err := c.tell(ctx, wire.SessionEvent{Event: "prompt", Text: c.said(c.title(by), 400), Given: tokensOf(len(c.text)),
		Continues: by == clientItself, Causes: causes, Origin: by == unknownSender && c.opt.client == ""})
	if c.opt.client == "" { // the others' transcripts are of another form
		_ = c.chain().advance(c.transcript)
	}
	if err == nil && !known.Mounted && c.dead() {
		return answer{out: output{message: deadLine, context: c.deadText(ctx)}}
	}
	said, ids := c.comments(ctx) // first: they must not be cut
	c.spend(ctx, "comments", said)
	news := ""
	if err == nil && (c.opt.client == "" || c.opt.dialect().Record) {
		news = newsBlock(known.News)
		c.spend(ctx, "news", news)
	}
	if said != "" && news != "" {
		said += "\n"
	}
	news = said + news
	a := answer{}
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

// maxNews is what a prompt may cost for what others changed, in characters.
const maxNews = 1000

// newsBlock tells the model which of the files that it holds are no longer what it was
// shown; "" where all are.
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

// The client writes its transcript behind our back: a busy one may be a moment
// late with the entry of the call that we are asked about.
const (
	chainTries = 4
	chainWait  = 15 * time.Millisecond
)

// checkChain tells the daemon, once per prompt, which tool calls are still part of
// the conversation that the present call belongs to. What a reader was shown by other
// calls (rewound, branched off) is no longer in its context. When the transcript
// cannot be read, the list is empty, and everything is dropped. Sub-agents cannot go
// back: their context only grows or ends.
func (c *call) checkChain(ctx context.Context) bool {
	if c.agent != "" || c.toolUse == "" || c.opt.client != "" {
		return true
	}
	if c.chain().judged(c.prompt) {
		return true
	}
	// Hooks of parallel calls run at the same time, and the transcript may not yet
	// hold all of these calls: a second check could drop what the first one's call
	// has already recorded. So one checks and the others wait for it.
	unlock := c.lockChain()
	defer unlock()
	if c.breaker.open() {
		return false
	}
	ch := c.chain()
	if ch.judged(c.prompt) {
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
	ch.judge(c.prompt)
	return true
}
