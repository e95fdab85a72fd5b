package hooks

import (
	"bytes"
	"context"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cachebro/store/wire"
)

// Codex has no read tool. Its model runs cat, sed and similar programs. To replace a command's
// output, a hook "blocks" the command after it ran. The model then gets only the hook's text, and
// the user sees "Blocked" next to the hook.
//
// The thread's record (the rollout) contains what the model really got and each compaction. So
// before a text is replaced, the record is read up to the event's call.

// rollout says how far a context's record has been read. It is stored in a file between events.
type rollout struct {
	file   string
	Path   string `json:"path"`
	Offset int64  `json:"offset"`
}

// recorded is what the new part of a record contains.
type recorded struct {
	shrunk  bool       // something was removed from the context
	outputs []finished // results after the last loss
	calls   map[string]fields
}

func (c *scene) rollout() rollout {
	r := rollout{file: c.contextFile(".rollout")}
	_ = wire.ReadJSON(r.file, &r)
	return r
}

// advance reads the new part of the record. If the record is another file or became shorter,
// everything shown so far counts as lost.
func (r *rollout) advance(path string, n *recorded) error {
	return readNew(path, &r.Offset, func(size int64) error {
		if r.Path != path || size < r.Offset {
			r.Path, r.Offset = path, 0
			n.lose()
		}
		if size-r.Offset > maxAccount {
			r.Offset = size
			n.lose()
		}
		return nil
	}, n.take)
}

func (n *recorded) lose() { n.shrunk, n.outputs = true, nil }

// rolloutKinds are the kinds of entries that remove nothing from a context. Any other kind counts
// as a loss: "compacted" is one, and later versions may add more.
var rolloutKinds = map[string]bool{
	"session_meta": true, "response_item": true, "event_msg": true, "turn_context": true, "world_state": true, "token_usage_record": true,
}

func (n *recorded) take(line []byte) {
	f, ok := parseFields(bytes.TrimSpace(line))
	if !ok {
		n.lose()
		return
	}
	kind, p := f.str("type"), f.object("payload")
	what := p.str("type")
	if !rolloutKinds[kind] || tellsRolloutLoss(what) {
		n.lose()
		return
	}
	if kind != "response_item" {
		return
	}
	switch what {
	case "function_call":
		if n.calls == nil {
			n.calls = map[string]fields{}
		}
		args, _ := parseFields([]byte(p.str("arguments")))
		n.calls[p.str("call_id")] = args
	case "function_call_output", "custom_tool_call_output":
		n.outputs = append(n.outputs, finished{toolUse: p.str("call_id"), text: joinText(p["output"])})
	}
}

// tellsRolloutLoss reports whether an item or event of this name shortens or rolls back the
// thread's history.
func tellsRolloutLoss(what string) bool {
	words := []string{"ompact", "roll", "trunc", "lear", "revert", "undo", "evict", "prune", "drop", "delet", "remov"}
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(what, w) })
}

// codexPrinted returns what a command printed, without the lines that Codex adds before it.
func codexPrinted(output string) string {
	if _, text, ok := strings.Cut(output, "\nOutput:\n"); ok {
		return text
	}
	return output
}

// readRecord tells the daemon what entered or left the context before the current call. It returns
// false if the record does not contain that call. The record never contains calls by a program that
// the model wrote (code mode), because their results go to that program.
func (c *call) readRecord(ctx context.Context) bool {
	if c.transcript == "" || c.toolUse == "" || c.chainDir() == "" {
		return false
	}
	unlock := c.lockChain() // parallel calls each run a hook
	defer unlock()
	r := c.rollout()
	var n recorded
	var args fields
	for try := 0; ; try++ {
		if err := r.advance(c.transcript, &n); err != nil {
			return false
		}
		known := false
		args, known = n.calls[c.toolUse]
		if known || try == chainTries {
			break
		}
		time.Sleep(chainWait)
	}
	if n.shrunk {
		if _, err := c.tell(ctx, wire.SessionEvent{Event: "fell"}); err != nil {
			return false
		}
	}
	printed := c.sentResults()
	commit := wire.Commit{Reader: wire.Reader{Session: c.session, Agent: c.agent}}
	for _, f := range n.outputs {
		if s, ok := printed[f.toolUse]; ok {
			took := wire.TookOther
			switch outputDigest(codexPrinted(f.text)) {
			case s.Own:
				took = wire.TookOwn
			case s.New:
				took = wire.TookOurs
			}
			commit.Calls = append(commit.Calls, wire.CommitCall{ToolUse: f.toolUse, Text: f.text, Took: took})
		} else {
			commit.Given += tokensOf(len(f.text))
		}
	}
	if len(commit.Calls) > 0 || commit.Given > 0 {
		if _, err := c.ask(ctx, wire.MCommit, commit, nil, nil); err != nil {
			return false
		}
	}
	if wire.WriteJSON(r.file, r) != nil || args == nil {
		return false
	}
	if dir := args.str("workdir"); dir != "" {
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(c.cwd, dir)
		}
		c.cwd = dir
	}
	return true
}
