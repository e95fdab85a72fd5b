package sessions

import (
	"context"
	"strings"
	"time"

	"cachebro/fusefs/cmdline"
	"cachebro/store"
	"cachebro/store/daemon/attribution"
	"cachebro/store/daemon/onwire"
	"cachebro/store/daemon/waits"
	"cachebro/store/wire"
)

// sessionEvent registers sessions, prompts and epochs. Any event with an
// unknown id registers it: no client is required to say "start".
func (ss *Sessions) sessionEvent(ctx context.Context, r *wire.Request) (any, []byte, error) {
	var e wire.SessionEvent
	if err := r.Decode(&e); err != nil {
		return nil, nil, err
	}
	if e.Session == "" {
		return nil, nil, wire.Errorf(wire.ErrBadRequest, "", "a session event without a session id")
	}
	if !ss.survey.Mounted() { // an agent is about to work here: know what there was
		ss.survey.RequestScan()
	}
	now := time.Now().UnixNano()
	id := store.SessionID(e.Session)
	if e.Event == "lost" { // a prompt or a call may be among what was lost
		ss.met.forget(e.Session)
	}
	ss.meetOnce(e.Session)
	s, known, err := ss.store.Sessions.Get(id)
	if err != nil {
		return nil, nil, err
	}
	if !known {
		s = store.Session{ID: id, Started: now, StartSeq: ss.store.Seq(), Branch: ss.source.Branch(ctx)}
	}
	owner := attribution.OwnerOf(e.PID)
	// A server knows its client's session from the environment only, which is
	// wrong after --continue; what hooks say counts.
	hint := e.Event == "connect" && e.Client == "mcp"
	if owner.PID != 0 && (!hint || !ss.attribution.KnownClient(owner)) {
		ss.attribution.Client(owner, id, now)
		s.PID, s.PStart = owner.PID, owner.Start
	}
	set(&s.Client, e.Client)
	set(&s.Cwd, e.Cwd)
	set(&s.Transcript, e.Transcript)
	set(&s.Source, e.Source)
	s.Last = now
	s.Ended = 0
	if e.Event == "end" {
		s.Ended = now
		ss.outputs.End(e.Session)
	}
	// A client names its own commands too, as /compact and /exit: only what a person
	// asks for is a prompt.
	if e.Event == "prompt" {
		ss.newPrompt(&s, e.Prompt, e.Text, now)
	}
	var news []wire.News
	reader := store.Reader{Session: id, Agent: e.Agent}
	if e.Event == "prompt" && !e.Checked && !e.Beside && e.Agent == "" {
		ss.ingest.WaitHead(ctx, waits.Fresh)
		head := ss.store.Seq() // before the look: what comes meanwhile is told next time
		news = ss.reads.News(ctx, reader, s.StartSeq, max(s.Told, s.StartSeq))
		s.Told = head
	}
	if !hint || !known {
		if err := ss.store.Sessions.Put(s); err != nil {
			ss.log.Warn("session", "err", err) // a full disk: epochs must still be told
		}
	}
	a := wire.SessionAnswer{Known: known, Mounted: ss.survey.Mounted(), News: news}
	a.Epoch, a.NeedCheck = ss.reads.Event(reader, e)
	ss.shown.Given(reader, e.Given)
	return a, nil, nil
}

// maxPromptText is how much of a prompt is kept, in bytes: what a person knows it by.
const maxPromptText = 200

// newPrompt registers what the session works on from now on.
func (ss *Sessions) newPrompt(s *store.Session, prompt, text string, now int64) bool {
	if prompt == "" || prompt == s.Prompt {
		return false
	}
	s.Prompt = prompt
	ss.attribution.Prompt(s.ID, prompt, now)
	if err := ss.store.Sessions.PutPrompt(store.Prompt{ID: prompt, Session: s.ID, Time: now, Text: cmdline.Line(cmdline.Text(text), maxPromptText), Seq: ss.store.Seq()}); err != nil {
		ss.log.Warn("prompt", "err", err)
	}
	return true
}

func set(to *string, v string) {
	if v != "" {
		*to = v
	}
}

func (ss *Sessions) toolBegin(ctx context.Context, r *wire.Request) (any, []byte, error) {
	var q wire.ToolCall
	if err := r.Decode(&q); err != nil {
		return nil, nil, err
	}
	if q.ToolUse == "" {
		return nil, nil, wire.Errorf(wire.ErrBadRequest, "", "a tool call without a tool_use id")
	}
	q.Command = cmdline.Text(q.Command)
	ss.meetOnce(q.Session)
	now := time.Now().UnixNano()
	owner := attribution.OwnerOf(q.PID)
	if q.Session == "" { // our own server: its client's session
		q.Session = string(ss.attribution.SessionOf(owner, now))
	} else if r.Hello.Client != "mcp" && owner.PID != 0 {
		ss.attribution.Client(owner, store.SessionID(q.Session), now)
	}
	// The event that announces a prompt may be lost. An agent's call may be of an
	// earlier one.
	if s, known, err := ss.store.Sessions.Get(store.SessionID(q.Session)); err == nil && known && q.Agent == "" && ss.newPrompt(&s, q.Prompt, "", now) {
		if err := ss.store.Sessions.Put(s); err != nil {
			ss.log.Warn("session", "err", err)
		}
	}
	ss.attribution.BeginTool(q, owner, now)
	if err := ss.store.Sessions.PutToolCall(store.ToolCall{ID: q.ToolUse, Session: store.SessionID(q.Session), Agent: q.Agent, Prompt: q.Prompt,
		Tool: q.Tool, Title: title(q), Begin: now, PID: uint32(max(q.PID, 0))}); err != nil {
		ss.log.Warn("tool call", "err", err)
	}
	var a wire.ToolBeginAnswer
	ss.reads.NoteContext(store.Reader{Session: store.SessionID(q.Session), Agent: q.Agent}, q.Context)
	if q.Tool == "Edit" || q.Tool == "Write" || q.Tool == "NotebookEdit" {
		a.Warnings, a.Held = ss.staleWarnings(ctx, q)
	}
	return a, nil, nil
}

// title is what log prints of a tool call.
func title(q wire.ToolCall) string {
	t := q.Command
	if t == "" && len(q.Paths) > 0 {
		t = string(q.Paths[0])
	}
	t = strings.ToValidUTF8(t, "?")
	if len(t) > 500 {
		t = strings.ToValidUTF8(t[:500], "")
	}
	return t
}

func (ss *Sessions) toolEnd(_ context.Context, r *wire.Request) (any, []byte, error) {
	var q wire.ToolCall
	if err := r.Decode(&q); err != nil {
		return nil, nil, err
	}
	q.Command = cmdline.Text(q.Command)
	now := time.Now().UnixNano()
	ss.attribution.EndTool(q.ToolUse, q.Background, q.Failed, now)
	ss.shown.Given(store.Reader{Session: store.SessionID(q.Session), Agent: q.Agent}, q.Given)
	c, ok, err := ss.store.Sessions.ToolCall(q.ToolUse)
	if err != nil {
		return nil, nil, err
	}
	if !ok {
		c = store.ToolCall{ID: q.ToolUse, Session: store.SessionID(q.Session), Agent: q.Agent, Prompt: q.Prompt, Tool: q.Tool, Title: title(q), Begin: now, PID: uint32(max(q.PID, 0))}
	}
	c.Failed = c.Failed || q.Failed
	if c.End == 0 || !q.Background {
		c.End = now
	}
	if err := ss.store.Sessions.PutToolCall(c); err != nil {
		ss.log.Warn("tool call", "err", err)
	}
	return wire.Empty{}, nil, nil
}

// staleWarnings tells a reader that is about to edit a file that somebody else
// changed it since the reader saw it, or why the call is held.
func (ss *Sessions) staleWarnings(ctx context.Context, q wire.ToolCall) (out []string, held string) {
	ss.ingest.WaitHead(ctx, waits.Fresh)
	session := store.SessionID(q.Session)
	for _, raw := range q.Paths {
		p, err := ss.paths.Clean(raw)
		if err != nil || p == "" {
			continue
		}
		if q.Hold && held == "" {
			held = ss.reads.Hold(ctx, store.Reader{Session: session, Agent: q.Agent}, p)
		}
		if w := ss.reads.Stale(ctx, store.Reader{Session: session, Agent: q.Agent}, p); w != "" {
			out = append(out, w)
		}
	}
	return out, held
}

// Live counts sessions that have not ended and whose client still runs.
func (ss *Sessions) Live() int {
	all, err := ss.store.Sessions.List(200)
	if err != nil {
		return 0
	}
	n := 0
	for _, s := range all {
		if s.Ended == 0 && (s.PID != 0 && attribution.Alive(int(s.PID), s.PStart) || s.PID == 0 && time.Since(onwire.Time(s.Last)).Abs() < time.Hour) {
			n++
		}
	}
	return n
}
