package hooks

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"cachebro/store/wire"
)

// Clients clear old tool results without an event: after a number of calls, when the user comes
// back after an hour, or on the server. A cleared text must not be reported as unchanged. So before
// every stub and diff, the hook reads the new part of the client's transcript and looks for these
// signs:
//   - a boundary entry, or an entry that is marked cleared, cut or compacted
//   - a result whose text was replaced by clearedMark
//   - a request that is smaller than the one before, according to the usage in its answer
//   - a file in SESSION/tool-results that is not a large output: Claude Code 2.1.197 stores
//     cleared results there
//
// A context is known to be intact if it grew with each request by at least the size of the texts
// added since the request before. In any other context, a shown text expires when the context has
// grown by a certain number of tokens.

// contextSize holds the data in a transcript about the size of its context. It is stored in a file
// between events.
type contextSize struct {
	file string

	Offset  int64  `json:"offset"` // bytes of the transcript that have been read
	Message string `json:"message,omitempty"`
	Model   string `json:"model,omitempty"`
	Total   int64  `json:"total,omitempty"`  // tokens of the latest request
	Chars   int64  `json:"chars,omitempty"`  // characters of results since that request, without white space
	Prompt  bool   `json:"prompt,omitempty"` // the person has sent a prompt since that request
	Stored  int    `json:"stored,omitempty"` // results stored as files because they were large
	Kept    int    `json:"kept,omitempty"`   // files in tool-results when counting began

	Calls    map[string]bool `json:"calls,omitempty"`    // the calls of the latest message
	Deferred string          `json:"deferred,omitempty"` // names of our tools whose schemas are not in the context
	Counted  string          `json:"counted,omitempty"`  // the part of Deferred whose cost was recorded

	// Compacted is set after a compaction was reported to the daemon. It is "due" until the
	// compaction's boundary entry was read, then "seen".
	Compacted string `json:"compacted,omitempty"`

	// What was found since the last report to the daemon.
	Shrunk bool `json:"fell,omitempty"`   // the context lost something
	Unsure bool `json:"unsure,omitempty"` // the context may have lost something
}

const (
	// charsPerToken is deliberately high. Without white space, code has about three characters per
	// token and prose four.
	charsPerToken = 5
	maxAccount    = 32 << 20 // bytes of transcript read for one answer
	// If usage falls by more than maxFall or by more than a tenth, the context lost something. A
	// smaller fall proves nothing, because the model's thinking is dropped and estimates differ.
	maxFall = 20_000
	// maxFallWithin is the limit between two calls of one prompt, where only results can be
	// dropped. Thinking is dropped at the next prompt.
	maxFallWithin = 2_000
)

// canHold reports whether the transcripts of this version of the client are known to show every
// loss, and no user option changes requests on their way.
func (c *scene) canHold() bool {
	name, version, ok := clientVersion(c.env.Getenv("AI_AGENT"))
	known := ok && name == "claude-code" && slices.Compare(version, []int{2, 1, 197}) >= 0
	return known && !strings.Contains(c.env.Getenv("CLAUDE_CODE_EXTRA_BODY"), "context_management")
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

// readLosses reads the new part of the transcript and returns the wire.Context value that says whether
// the calling context lost something, or "" without a transcript.
func (c *call) readLosses() string {
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
	for i := 0; err == nil && !known && !s.Shrunk && i < chainTries; i++ { // this call's entry may be written a moment late
		time.Sleep(chainWait)
		known, err = s.reaches(c.record(), c.toolUse)
	}
	fell, unsure := s.Shrunk, s.Unsure
	s.Shrunk, s.Unsure = false, false
	s.save()
	switch {
	case fell:
		return wire.ContextFell
	case err != nil:
		return "" // without a transcript, the hooks' reports decide when shown texts expire
	case !known || unsure || !c.canHold():
		return wire.ContextUnsure
	}
	return wire.ContextHeld
}

// countSchema records what our tools cost in this session's requests. Newer clients put only the
// names of tools into a context. They add a schema when the model asks for it, which the transcript
// shows. Without a transcript, the whole list of tools counts.
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
	s := &contextSize{file: c.contextFile(".size")}
	_ = wire.ReadJSON(s.file, s)
	return s
}

// contextFile returns the file that holds a record of the reader's context, or "" if no records are
// kept.
func (c *scene) contextFile(ext string) string {
	name := c.session
	if c.agent != "" {
		name += "." + c.agent
	}
	return c.stateFile(name, ext)
}

func (s *contextSize) save() {
	if s.file == "" {
		return
	}
	if os.MkdirAll(filepath.Dir(s.file), 0o700) == nil {
		_ = wire.WriteJSON(s.file, s)
	}
}

const (
	compactionDue  = "due"
	compactionSeen = "seen"
)

// begin starts counting at the current end of a transcript, because a session starts with a new
// context. compacted means that the session starts after a compaction that was reported to the
// daemon.
//
// Claude Code writes the boundary entry of a compaction after its SessionStart hooks. On a busy
// machine that can be after the first call of the new context. The boundary must not count as a
// second loss, because that call's text would then count as lost.
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

// reaches reads the new part of the transcript. It reports whether the transcript contains the call
// toolUse. If it does, the size of the request that led to the call has been checked.
func (s *contextSize) reaches(transcript, toolUse string) (bool, error) {
	if err := s.advance(transcript); err != nil {
		return false, err
	}
	if n := storedResults(transcript); n > s.Kept+s.Stored {
		s.Shrunk, s.Kept = true, n-s.Stored
	}
	if !s.Calls[toolUse] {
		return false, nil
	}
	s.Compacted = "" // the entries of the compaction precede all calls of the new context
	return true, nil
}

func (s *contextSize) advance(transcript string) error {
	if s.file == "" || transcript == "" {
		return errNoRecord
	}
	return readNew(transcript, &s.Offset, func(size int64) error {
		if size < s.Offset || size-s.Offset > maxAccount {
			s.Shrunk = true
			s.Offset = size
			s.Total, s.Chars = 0, 0
		}
		return nil
	}, s.account)
}

// readNew calls take with each line of a file after offset, and advances offset. It leaves an
// incomplete line to the next event. It first calls fit with the size of the file; fit may change
// offset.
func readNew(path string, offset *int64, fit func(size int64) error, take func(line []byte)) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	if err := fit(fi.Size()); err != nil {
		return err
	}
	if _, err := f.Seek(*offset, io.SeekStart); err != nil {
		return err
	}
	r := bufio.NewReaderSize(f, 256<<10)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return nil
		}
		*offset += int64(len(line))
		take(line)
	}
}

// clearedMark is the text that replaces a cleared result.
const clearedMark = "[Old tool result content cleared]"

// account updates s with one entry of the transcript.
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
		// Earlier entries that were written late belong to the old context.
		*s = contextSize{file: s.file, Offset: s.Offset, Kept: s.Kept, Deferred: s.Deferred, Counted: s.Counted, Compacted: compactionSeen}
		return
	case s.Compacted == compactionSeen && e.Type == "user" && e.Summary:
		return
	}
	reportsLoss := e.Type != "attachment" && lost(line) || e.Type == "system" && tellsLoss(e.Subtype)
	if reportsLoss || lost(e.Message.Edits) {
		s.Shrunk = true
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
					s.Shrunk = true
				case strings.HasPrefix(text, preview):
					s.Stored++
				}
				s.Chars += nonSpace(text)
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
			s.Message, s.Model = e.Message.ID, e.Message.Model
			s.Total, s.Chars = total, 0
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

// compare checks the size of a request against the request before it and the texts added since.
func (s *contextSize) compare(total int64, model string) {
	least := s.Total + s.Chars/charsPerToken
	switch {
	case model != s.Model: // models count tokens differently
		s.Unsure = true
	case least-total > maxFall, 10*(s.Total-total) > s.Total, !s.Prompt && least-total > maxFallWithin:
		s.Shrunk = true
	case total < least:
		s.Unsure = true
	}
}

// lossWords are parts of the names of fields and kinds of entries that report a loss from the
// context.
var lossWords = []string{"ompact", "leared", "clear_tool", "cut_tool"}

func tellsLoss(name string) bool {
	return slices.ContainsFunc(lossWords, func(w string) bool { return strings.Contains(name, w) })
}

// lost reports whether an object reports a loss. It does if the name of a field contains one of
// lossWords and the field's value is neither empty nor false, or if its applied_edits contain an
// edit whose type contains one of lossWords and which removed something.
func lost(raw json.RawMessage) bool {
	var f fields
	found := slices.ContainsFunc(lossWords, func(w string) bool { return bytes.Contains(raw, []byte(w)) })
	if len(raw) == 0 || raw[0] != '{' || !found || json.Unmarshal(raw, &f) != nil {
		return false
	}
	for name, v := range f {
		switch s := string(v); {
		case tellsLoss(name):
			if !slices.Contains([]string{"false", "null", "0", `""`, "[]", "{}"}, s) {
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

// nonSpace counts the characters that are not white space. One token may hold any amount of white space.
func nonSpace(text string) (n int64) {
	for _, r := range text {
		if !unicode.IsSpace(r) {
			n++
		}
	}
	return n
}

// storedResults counts the results that the client stored as files next to the main loop's
// transcript.
func storedResults(transcript string) int {
	entries, err := os.ReadDir(filepath.Join(strings.TrimSuffix(transcript, ".jsonl"), "tool-results"))
	if err != nil {
		return 0
	}
	return len(entries)
}
