package hooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"cachebro/store/leaf/text"
	"cachebro/store/wire"
)

// chain is an index of a session's transcript, so that a hook reads only the transcript's new part.
// A transcript is a tree: each entry names its parent, and after a rewind the abandoned
// conversation remains as a dead branch. Each line of the index is one of:
//
//	n UUID PARENT MESSAGE TOOL,TOOL   an entry ("-" for none)
//	o OFFSET                          bytes of the transcript that are indexed
//	p PROMPT                          the prompt for which the chain was last checked
//
// The index begins where the transcript ended when the session was first seen, because all recorded
// texts come from later tool calls. Lines may occur twice. The last o and p lines count.
type chain struct {
	file string

	offset  int64
	started bool
	prompt  string
	nodes   map[string]node
	byTool  map[string]string   // tool_use id → entry
	byMsg   map[string][]string // message id → entries; parallel calls of one message are siblings
}

type node struct {
	parent, msg string
	tools       []string
}

const keepFor = 7 * 24 * time.Hour // how long an unused file of a session is kept

func (c *scene) chain() *chain {
	ch := &chain{nodes: map[string]node{}, byTool: map[string]string{}, byMsg: map[string][]string{}}
	ch.file = c.stateFile(c.session, ".chain")
	b, err := os.ReadFile(ch.file)
	if err != nil {
		return ch
	}
	for _, line := range strings.Split(string(b), "\n") {
		f := strings.Split(line, " ")
		switch {
		case f[0] == "n" && len(f) == 5:
			var tools []string
			if f[4] != "-" {
				tools = strings.Split(f[4], ",")
			}
			ch.add(f[1], node{f[2], f[3], tools})
		case f[0] == "o" && len(f) == 2:
			if n, err := strconv.ParseInt(f[1], 10, 64); err == nil && n >= 0 {
				ch.offset, ch.started = n, true
			}
		case f[0] == "p" && len(f) == 2:
			ch.prompt = f[1]
		}
	}
	return ch
}

func (c *scene) chainDir() string {
	state, err := c.env.Paths.State(c.root)
	if err != nil {
		return ""
	}
	if _, err := os.Lstat(state); err != nil {
		return ""
	}
	return filepath.Join(state, "hooks")
}

// stateFile returns the file in which hooks store data about a session or context, or "" without a
// state directory.
func (c *scene) stateFile(id, ext string) string {
	dir := c.chainDir()
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, fileName(id)+ext)
}

// pruneChains removes the files of sessions whose end was never reported, and old sessions' lists of
// projects.
func (c *scene) pruneChains() {
	c.env.Paths.ForgetSessions(c.env.Now().Add(-keepFor))
	dir := c.chainDir()
	if dir == "" {
		return
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if fi, err := e.Info(); err == nil && c.env.Now().Sub(fi.ModTime()) > keepFor {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// fileName turns a client's id into a file name without special characters.
func fileName(id string) string {
	plain := strings.IndexFunc(id, func(r rune) bool {
		return !text.IsWord(r) && r != '-'
	}) < 0
	if plain && len(id) <= 64 {
		return id
	}
	return text.Hash([]byte(id))[:32]
}

func (ch *chain) add(uuid string, n node) {
	if _, known := ch.nodes[uuid]; known {
		return
	}
	ch.nodes[uuid] = n
	for _, t := range n.tools {
		ch.byTool[t] = uuid
	}
	if n.msg != "-" {
		ch.byMsg[n.msg] = append(ch.byMsg[n.msg], uuid)
	}
}

// begin starts the index at the transcript's current end.
func (ch *chain) begin(transcript string) {
	if ch.started || ch.file == "" {
		return
	}
	var size int64
	if fi, err := os.Stat(transcript); err == nil {
		size = fi.Size()
	}
	ch.offset, ch.started = size, true
	_ = wire.AppendTo(ch.file, fmt.Sprintf("o %d\n", size))
}

// alive brings the index up to date and returns the tool calls on the chain that ends with the call
// toolUse, or none if the index does not contain that call.
func (ch *chain) alive(transcript, toolUse string) []string {
	if err := ch.advance(transcript); err != nil {
		return nil
	}
	uuid, ok := ch.byTool[toolUse]
	if !ok {
		return nil
	}
	return ch.walk(uuid)
}

// walk collects the calls of an entry and of all its ancestors, with the siblings of their
// messages.
func (ch *chain) walk(uuid string) []string {
	seen := map[string]bool{}
	var ids []string
	take := func(uuid string) {
		if !seen[uuid] {
			seen[uuid] = true
			ids = append(ids, ch.nodes[uuid].tools...)
		}
	}
	for range ch.nodes { // a damaged transcript may contain a cycle
		n, ok := ch.nodes[uuid]
		if !ok {
			break
		}
		take(uuid)
		for _, sibling := range ch.byMsg[n.msg] {
			take(sibling)
		}
		uuid = n.parent
	}
	return ids
}

var errShrunk = errors.New("the transcript is shorter than before")

// advance indexes the complete lines that were added.
func (ch *chain) advance(transcript string) error {
	if ch.file == "" || transcript == "" {
		return errNoRecord
	}
	if !ch.started {
		ch.begin(transcript)
		_, err := os.Stat(transcript)
		return err
	}
	var out bytes.Buffer
	err := readNew(transcript, &ch.offset, func(size int64) error {
		if size < ch.offset { // the transcript was rewritten, so the index is invalid
			_ = os.Remove(ch.file)
			return errShrunk
		}
		return nil
	}, func(line []byte) { ch.index(line, &out) })
	if err != nil || out.Len() == 0 {
		return err
	}
	fmt.Fprintf(&out, "o %d\n", ch.offset)
	return wire.AppendTo(ch.file, out.String())
}

// index adds one line of the transcript, unless it does not parse.
func (ch *chain) index(line []byte, out *bytes.Buffer) {
	var e struct {
		UUID      string `json:"uuid"`
		Parent    string `json:"parentUuid"`
		Type      string `json:"type"`
		Sidechain bool   `json:"isSidechain"`
		Message   struct {
			ID      string          `json:"id"`
			Content json.RawMessage `json:"content"`
		} `json:"message"`
	}
	if json.Unmarshal(line, &e) != nil || !word(e.UUID) || e.Sidechain {
		return
	}
	n := node{parent: e.Parent, msg: e.Message.ID}
	if !word(n.parent) {
		n.parent = "-"
	}
	if !word(n.msg) {
		n.msg = "-"
	}
	var blocks []struct {
		Type string `json:"type"`
		ID   string `json:"id"`
	}
	if e.Type == "assistant" && json.Unmarshal(e.Message.Content, &blocks) == nil {
		for _, b := range blocks {
			if b.Type == "tool_use" && word(b.ID) {
				n.tools = append(n.tools, b.ID)
			}
		}
	}
	ch.add(e.UUID, n)
	tools := "-"
	if len(n.tools) > 0 {
		tools = strings.Join(n.tools, ",")
	}
	fmt.Fprintf(out, "n %s %s %s %s\n", e.UUID, n.parent, n.msg, tools)
}

// word reports whether a text can be written into the index unquoted.
func word(s string) bool {
	return s != "" && len(s) <= 200 && !strings.ContainsAny(s, " ,\n\r")
}

// wasChecked reports whether the chain was checked since this prompt began.
func (ch *chain) wasChecked(prompt string) bool { return prompt != "" && ch.prompt == prompt }

func (ch *chain) markChecked(prompt string) {
	if word(prompt) {
		ch.prompt = prompt
		_ = wire.AppendTo(ch.file, "p "+prompt+"\n")
	}
}

// lockChain waits for the session's other hooks that check its chain. The lock ends with the
// process at the latest.
func (c *scene) lockChain() (unlock func()) {
	file := c.stateFile(c.session, ".chain")
	if file == "" || os.MkdirAll(filepath.Dir(file), 0o700) != nil {
		return func() {}
	}
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return func() {}
	}
	_ = syscall.Flock(int(f.Fd()), syscall.LOCK_EX) // a failure only costs savings
	return func() { _ = f.Close() }
}

func (ch *chain) remove() {
	if ch.file != "" {
		_ = os.Remove(ch.file)
	}
}
