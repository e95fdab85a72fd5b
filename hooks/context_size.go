package hooks

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"cachebro/store/wire"
)

// Clients may clear old tool results without any event. But each answer in a
// transcript carries the size of the request that it answers (usage: input,
// cache read and cache creation tokens), and a context that lost nothing grows
// by at least what came in between. One that grew less, or shrank, lost
// something. Claude Code 2.1.197 clears in one way only, in the main loop, all
// results but the last five and never less than 20,000 tokens of them, and
// writes what it clears to SESSION/tool-results first: a file there that is no
// large output is a second sign of it.

// contextSize is what is known of a context's size, from its transcript. It is
// kept between events in one line: the fields in their order.
type contextSize struct {
	file string

	Offset  int64  `json:"offset"` // bytes of the transcript that are accounted for
	Message string `json:"message,omitempty"`
	Model   string `json:"model,omitempty"`
	Total   int64  `json:"total,omitempty"`  // tokens of the latest request
	Chars   int64  `json:"chars,omitempty"`  // of results since, without white space
	Stored  int    `json:"stored,omitempty"` // results that were large outputs
	Kept    int    `json:"kept,omitempty"`   // files in tool-results when the account began

	Calls map[string]bool `json:"calls,omitempty"` // of the latest message
	fell  bool
}

const (
	// charsPerToken: code has about three, prose four, white space apart.
	charsPerToken = 5
	maxAccount    = 32 << 20 // bytes of transcript that are read for one answer
)

// canLook: the client writes a record of its context's size that was tried and
// its requests are not edited on the way by an option of the user's.
func (c *call) canLook() bool {
	return c.opt.client == "" && c.toolUse != "" && saysUnchanged(c.env.Getenv("AI_AGENT")) &&
		!strings.Contains(c.env.Getenv("CLAUDE_CODE_EXTRA_BODY"), "context_management")
}

// record is the transcript of the caller's own context; "" if it has none.
func (c *call) record() string {
	if c.transcript == "" || c.agent == "" {
		return c.transcript
	}
	if fileName(c.agent) != c.agent {
		return ""
	}
	return filepath.Join(filepath.Dir(c.transcript), c.session, "subagents", "agent-"+c.agent+".jsonl")
}

// askRead asks what to replace a result with. If the daemon says that it only
// depends on whether this context is still whole, that is looked up first.
func (c *call) askRead(ctx context.Context, req wire.ReadRequest, body string, ans *wire.ReadAnswer) ([]byte, error) {
	req.Check = c.canLook()
	text, err := c.ask(ctx, wire.MRead, req, []byte(body), ans)
	if err != nil || ans.Kind != wire.ReadAged {
		return text, err
	}
	c.look(ctx)
	req.Check, *ans = false, wire.ReadAnswer{}
	return c.ask(ctx, wire.MRead, req, []byte(body), ans)
}

// look tells the daemon whether this context has lost anything since it was
// last looked at. It says nothing when it cannot tell.
func (c *call) look(ctx context.Context) {
	unlock := c.lockChain()
	defer unlock()
	s := c.contextSize()
	known, whole := s.whole(c.record(), c.toolUse)
	for i := 0; !known && s.fresh() && i < chainTries; i++ { // the entry of this call may come a moment late
		time.Sleep(chainWait)
		known, whole = s.whole(c.record(), c.toolUse)
	}
	switch {
	case s.fell || known && !whole:
		if _, err := c.tell(ctx, wire.SessionEvent{Event: wire.EventFell}); err != nil {
			return // not written down: it is found again
		}
	case known:
		if _, err := c.tell(ctx, wire.SessionEvent{Event: wire.EventHeld}); err != nil {
			return
		}
	}
	s.save()
}

func (c *call) contextSize() *contextSize {
	s := &contextSize{}
	dir := c.chainDir()
	if dir == "" {
		return s
	}
	name := c.session
	if c.agent != "" {
		name += "." + c.agent
	}
	s.file = filepath.Join(dir, fileName(name)+".size")
	if b, err := os.ReadFile(s.file); err == nil {
		_ = json.Unmarshal(b, s)
	}
	return s
}

func (s *contextSize) save() {
	if s.file == "" {
		return
	}
	b, err := json.Marshal(s)
	if err != nil || os.MkdirAll(filepath.Dir(s.file), 0o700) != nil {
		return
	}
	tmp := fmt.Sprintf("%s.%d", s.file, os.Getpid())
	if os.WriteFile(tmp, b, 0o600) != nil || os.Rename(tmp, s.file) != nil {
		_ = os.Remove(tmp)
	}
}

// begin starts the account at the present end of a transcript: a session's
// start is a new context.
func (s *contextSize) begin(transcript string) {
	*s = contextSize{file: s.file, Kept: storedResults(transcript)}
	if fi, err := os.Stat(transcript); err == nil {
		s.Offset = fi.Size()
	}
	s.save()
}

func (s *contextSize) fresh() bool { return s.file != "" && !s.fell }

var errNoRecord = errors.New("no transcript of this context")

// whole brings the account up to date. known: the transcript reaches the call
// toolUse, so that its request is accounted for.
func (s *contextSize) whole(transcript, toolUse string) (known, whole bool) {
	if err := s.advance(transcript); err != nil {
		return false, false
	}
	if storedResults(transcript) > s.Kept+s.Stored {
		s.fell = true
	}
	return s.Calls[toolUse], !s.fell
}

func (s *contextSize) advance(transcript string) error {
	if s.file == "" || transcript == "" {
		return errNoRecord
	}
	f, err := os.Open(transcript)
	if err != nil {
		return err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	if fi.Size() < s.Offset || fi.Size()-s.Offset > maxAccount {
		s.fell = true
		s.Offset, s.Total, s.Chars = fi.Size(), 0, 0
		return nil
	}
	if _, err := f.Seek(s.Offset, io.SeekStart); err != nil {
		return err
	}
	r := bufio.NewReaderSize(f, 256<<10)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil { // an unfinished line waits for the next time
			return nil
		}
		s.Offset += int64(len(line))
		s.account(line)
	}
}

// account takes in one entry.
func (s *contextSize) account(line []byte) {
	var e struct {
		Type    string `json:"type"`
		Subtype string `json:"subtype"`
		Message struct {
			ID      string          `json:"id"`
			Model   string          `json:"model"`
			Content json.RawMessage `json:"content"`
			Usage   struct {
				Input    int64 `json:"input_tokens"`
				Read     int64 `json:"cache_read_input_tokens"`
				Creation int64 `json:"cache_creation_input_tokens"`
			} `json:"usage"`
		} `json:"message"`
	}
	if json.Unmarshal(line, &e) != nil {
		return
	}
	var blocks []struct {
		Type    string          `json:"type"`
		ID      string          `json:"id"`
		Content json.RawMessage `json:"content"`
	}
	_ = json.Unmarshal(e.Message.Content, &blocks)
	switch {
	case e.Type == "system" && strings.Contains(e.Subtype, "compact"):
		s.fell = true
	case e.Type == "user":
		for _, b := range blocks {
			if b.Type == "tool_result" {
				text := joinText(b.Content)
				if strings.HasPrefix(text, "<persisted-output>") {
					s.Stored++
				}
				s.Chars += solid(text)
			}
		}
	case e.Type == "assistant":
		total := e.Message.Usage.Input + e.Message.Usage.Read + e.Message.Usage.Creation
		if total <= 0 || e.Message.ID == "" || e.Message.Model == "<synthetic>" {
			return
		}
		if e.Message.ID != s.Message {
			if s.Total > 0 && (total < s.Total+s.Chars/charsPerToken || e.Message.Model != s.Model) {
				s.fell = true
			}
			s.Message, s.Model, s.Total, s.Chars = e.Message.ID, e.Message.Model, total, 0
			s.Calls = nil
		}
		if s.Calls == nil {
			s.Calls = map[string]bool{}
		}
		for _, b := range blocks {
			if b.Type == "tool_use" {
				s.Calls[b.ID] = true
			}
		}
	}
}

// solid counts what is no white space, which tokens hold any amount of.
func solid(text string) (n int64) {
	for _, r := range text {
		if !unicode.IsSpace(r) {
			n++
		}
	}
	return n
}

// storedResults counts the results that the client keeps as files beside the
// main loop's transcript.
func storedResults(transcript string) int {
	entries, err := os.ReadDir(filepath.Join(strings.TrimSuffix(transcript, ".jsonl"), "tool-results"))
	if err != nil {
		return 0
	}
	return len(entries)
}
