package hooks

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"cachebro/store/wire"
)

// Clients clear old tool results without any event: some after a number of calls,
// some when the user comes back after an hour, some on the server. What is cleared
// must not be called unchanged. So before every stub and diff the hook reads the new
// part of the client's transcript and looks for these signs:
//   - a boundary entry, or one that is marked cleared, cut or compacted;
//   - a result whose text is the mark of a cleared one;
//   - usage: each answer carries the size of the request that it answers, and
//     that size fell;
//   - results that were put aside: Claude Code 2.1.197 writes what it clears to
//     SESSION/tool-results first. A file there that is no large output is one.
//
// A context is known to be intact when it grew at each request by at least what came
// in between. Only then do bases outlive the expiry by tokens.

// contextSize holds what a transcript says about the size of its context. A file holds it
// between events, as one line with the fields in this order.
type contextSize struct {
	file string

	Offset  int64  `json:"offset"` // bytes of the transcript that are accounted for
	Message string `json:"message,omitempty"`
	Model   string `json:"model,omitempty"`
	Total   int64  `json:"total,omitempty"`  // tokens of the latest request
	Chars   int64  `json:"chars,omitempty"`  // of results since, without white space
	Prompt  bool   `json:"prompt,omitempty"` // since: the person said something
	Stored  int    `json:"stored,omitempty"` // results that were large outputs
	Kept    int    `json:"kept,omitempty"`   // files in tool-results when the account began

	Calls    map[string]bool `json:"calls,omitempty"`    // of the latest message
	Deferred string          `json:"deferred,omitempty"` // our tools of which the context has the names alone
	Counted  string          `json:"counted,omitempty"`  // of Deferred, entered into the ledger

	// Compacted: the daemon was told of a compaction whose entries are still to come
	// (due), or of which the boundary has come (seen).
	Compacted string `json:"compacted,omitempty"`

	// What was found since the last word to the daemon.
	Fell   bool `json:"fell,omitempty"`
	Unsure bool `json:"unsure,omitempty"`
}

const (
	// charsPerToken: code has about three, prose four, white space apart.
	charsPerToken = 5
	maxAccount    = 32 << 20 // bytes of transcript that are read for one answer
	// Usage that falls by more than this, or by more than a tenth, has lost
	// something. A little less is no sign: thinking is dropped, estimates differ.
	maxFall = 20_000
	// Between two calls of one prompt nothing else than results is dropped: thinking
	// goes with the next prompt.
	maxFallWithin = 2_000
)

// canHold reports whether this version's transcript was found to show every loss, and the
// user's options do not edit requests on their way.
func (c *scene) canHold() bool {
	return atLeast(c.env.Getenv("AI_AGENT"), 2, 1, 197) && !strings.Contains(c.env.Getenv("CLAUDE_CODE_EXTRA_BODY"), "context_management")
}

// record returns the transcript of the caller's own context, or "" if it has none.
func (c *scene) record() string {
	if c.transcript == "" || c.agent == "" {
		return c.transcript
	}
	if fileName(c.agent) != c.agent {
		return ""
	}
	return filepath.Join(filepath.Dir(c.transcript), c.session, "subagents", "agent-"+c.agent+".jsonl")
}

// look reads what is new in the transcript and says what that means for the
// calling context, in the daemon's words.
func (c *call) look() string {
	if d := c.opt.dialect(); d.Requests || d.Record && c.tool == "Bash" {
		return wire.ContextHeld // losses before this call have been reported
	}
	if c.opt.client != "" || c.toolUse == "" || c.record() == "" {
		return ""
	}
	unlock := c.lockChain()
	defer unlock()
	s := c.contextSize()
	known, err := s.reaches(c.record(), c.toolUse)
	for i := 0; err == nil && !known && !s.Fell && i < chainTries; i++ { // the entry of this call may come a moment late
		time.Sleep(chainWait)
		known, err = s.reaches(c.record(), c.toolUse)
	}
	fell, unsure := s.Fell, s.Unsure
	s.Fell, s.Unsure = false, false
	s.save()
	switch {
	case fell:
		return wire.ContextFell
	case err != nil:
		return "" // no transcript: bases expire by what the hooks see
	case !known || unsure || !c.canHold():
		return wire.ContextUnsure
	}
	return wire.ContextHeld
}

// countSchema records what our tools cost in this session's requests. Newer clients put only
// the names into a context, and a schema when the model asks for it: the transcript shows
// which. Without one, the whole list of tools counts.
func (c *call) countSchema(ctx context.Context) {
	if c.opt.client != "" || c.transcript == "" || c.agent != "" {
		return
	}
	unlock := c.lockChain()
	defer unlock()
	s := c.contextSize()
	if s.advance(c.transcript) != nil {
		return
	}
	if s.Deferred != "" && s.Deferred != s.Counted {
		_, err := c.ask(ctx, wire.MSpend, wire.Spend{Reader: c.reader(), Tool: "schema", Kind: "overhead"}, []byte(s.Deferred), nil)
		if err == nil {
			s.Counted = s.Deferred
		}
	}
	s.save()
}

func (c *scene) contextSize() *contextSize {
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

const (
	compactionDue  = "due"
	compactionSeen = "seen"
)

// begin starts the account at the present end of a transcript: a session's
// start is a new context. compacted: by a compaction that the daemon knows of.
//
// Claude Code writes the boundary after its SessionStart hooks, and a busy one not
// before the first call of the new context is answered. It must not count as one more
// loss then, or that call's text would be taken for lost.
func (s *contextSize) begin(transcript string, compacted bool) {
	*s = contextSize{file: s.file, Kept: storedResults(transcript)}
	if compacted {
		s.Compacted = compactionDue
	}
	if fi, err := os.Stat(transcript); err == nil {
		s.Offset = fi.Size()
	}
	s.save()
}

var errNoRecord = errors.New("no transcript of this context")

// reaches brings the account up to date and reports whether it reaches the call
// toolUse, so that the request that led to it is accounted for.
func (s *contextSize) reaches(transcript, toolUse string) (bool, error) {
	if err := s.advance(transcript); err != nil {
		return false, err
	}
	if n := storedResults(transcript); n > s.Kept+s.Stored {
		s.Fell, s.Kept = true, n-s.Stored
	}
	if !s.Calls[toolUse] {
		return false, nil
	}
	s.Compacted = "" // its entries stand before all calls of the new context
	return true, nil
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
		s.Fell = true
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

// clearedMark stands in the place of a result that was cleared.
const clearedMark = "[Old tool result content cleared]"

// account takes in one entry.
func (s *contextSize) account(line []byte) {
	var e struct {
		Type       string `json:"type"`
		Subtype    string `json:"subtype"`
		Summary    bool   `json:"isCompactSummary"`
		Attachment struct {
			Type  string   `json:"type"`
			Names []string `json:"addedNames"`
		} `json:"attachment"`
		Message struct {
			ID      string          `json:"id"`
			Model   string          `json:"model"`
			Content json.RawMessage `json:"content"`
			Usage   struct {
				Input    int64 `json:"input_tokens"`
				Read     int64 `json:"cache_read_input_tokens"`
				Creation int64 `json:"cache_creation_input_tokens"`
			} `json:"usage"`
			Edits json.RawMessage `json:"context_management"`
		} `json:"message"`
	}
	if json.Unmarshal(line, &e) != nil {
		return
	}
	switch {
	case s.Compacted == compactionDue && e.Type == "system" && e.Subtype == "compact_boundary":
		// What came late before it is of the old context.
		*s = contextSize{file: s.file, Offset: s.Offset, Kept: s.Kept, Deferred: s.Deferred, Counted: s.Counted, Compacted: compactionSeen}
		return
	case s.Compacted == compactionSeen && e.Type == "user" && e.Summary:
		return
	}
	if e.Type != "attachment" && lost(line) || lost(e.Message.Edits) || e.Type == "system" && tellsLoss(e.Subtype) {
		s.Fell = true
	}
	var blocks []struct {
		Type    string          `json:"type"`
		ID      string          `json:"id"`
		Content json.RawMessage `json:"content"`
	}
	_ = json.Unmarshal(e.Message.Content, &blocks)
	switch {
	case e.Type == "attachment" && e.Attachment.Type == "deferred_tools_delta":
		for _, name := range e.Attachment.Names {
			if isOurs(name) {
				s.Deferred += name + "\n"
			}
		}
	case e.Type == "user":
		s.Prompt = s.Prompt || len(blocks) == 0
		for _, b := range blocks {
			if b.Type == "tool_result" {
				text := joinText(b.Content)
				switch {
				case strings.TrimSpace(text) == clearedMark:
					s.Fell = true
				case strings.HasPrefix(text, preview):
					s.Stored++
				}
				s.Chars += solid(text)
			} else {
				s.Prompt = true
			}
		}
	case e.Type == "assistant":
		total := e.Message.Usage.Input + e.Message.Usage.Read + e.Message.Usage.Creation
		if total <= 0 || e.Message.ID == "" || e.Message.Model == "<synthetic>" {
			return
		}
		if e.Message.ID != s.Message {
			if s.Total > 0 {
				s.compare(total, e.Message.Model)
			}
			s.Message, s.Model, s.Total, s.Chars = e.Message.ID, e.Message.Model, total, 0
			s.Calls, s.Prompt = nil, false
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

// compare checks a request's size against the size of the one before and of what came since.
func (s *contextSize) compare(total int64, model string) {
	least := s.Total + s.Chars/charsPerToken
	switch {
	case model != s.Model: // models count tokens differently
		s.Unsure = true
	case least-total > maxFall, 10*(s.Total-total) > s.Total, !s.Prompt && least-total > maxFallWithin:
		s.Fell = true
	case total < least:
		s.Unsure = true
	}
}

// lossWords are parts of names. A client gives such a name to a field, or to a kind of entry,
// when it takes something out of the context.
var lossWords = []string{"ompact", "leared", "clear_tool", "cut_tool"}

func tellsLoss(name string) bool {
	return slices.ContainsFunc(lossWords, func(w string) bool { return strings.Contains(name, w) })
}

// lost reports whether an object has a field of such a name whose value is not empty or
// false, or lists an edit of such a name that took something out.
func lost(raw json.RawMessage) bool {
	var f fields
	found := slices.ContainsFunc(lossWords, func(w string) bool { return bytes.Contains(raw, []byte(w)) })
	if len(raw) == 0 || raw[0] != '{' || !found || json.Unmarshal(raw, &f) != nil {
		return false
	}
	for name, v := range f {
		switch s := string(v); {
		case tellsLoss(name):
			if s != "false" && s != "null" && s != "0" && s != `""` && s != "[]" && s != "{}" {
				return true
			}
		case name == "applied_edits":
			var edits []fields
			if json.Unmarshal(v, &edits) != nil {
				continue
			}
			for _, e := range edits {
				n, counted := e.number("cleared_tool_uses")
				if tellsLoss(e.str("type")) && (n > 0 || !counted) {
					return true
				}
			}
		}
	}
	return false
}

// solid counts the bytes that are not white space: one token may hold any amount of that.
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
