package sessions

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"cachebro/cmd/cachebro/daemon/attribution"
	"cachebro/cmd/cachebro/daemon/ingest"
	"cachebro/store"
	"cachebro/store/leaf/cmdline"
	"cachebro/store/onwire"
	"cachebro/store/wire"
)

// sessionEvent registers sessions, prompts and epochs. Any event with an unknown id registers the
// session, because some clients never send "start".
func (ss *Sessions) sessionEvent(ctx context.Context, r *wire.Request, e wire.SessionEvent) (any, []byte, error) {
	if e.Session == "" {
		return nil, nil, wire.Errorf(wire.ErrBadRequest, "", "the session event has no session id")
	}
	if !ss.Survey.Mounted() { // an agent is about to work here, so record the present files
		ss.Survey.RequestScan()
	}
	now := time.Now().UnixNano()
	id := store.SessionID(e.Session)
	if e.Event == "lost" { // the lost events may include a prompt or a call
		ss.met.forget(e.Session)
	}
	ss.meetOnce(e.Session)
	s, known, err := ss.Store.Sessions.Get(id)
	if err != nil {
		return nil, nil, err
	}
	if !known {
		s = store.Session{ID: id, Started: now, StartSeq: ss.Store.Seq(), Branch: ss.Source.Branch(ctx)}
	}
	owner := attribution.OwnerOf(e.PID)
	// An MCP server knows its client's session only from the environment, which is wrong after
	// --continue. The session that hooks report takes precedence.
	hint := e.Event == "connect" && e.Client == "mcp"
	if owner.PID != 0 && (!hint || !ss.Attribution.KnownClient(owner)) {
		ss.Attribution.Client(owner, id, now)
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
		ss.Outputs.End(e.Session)
	}
	// Clients also announce their own commands, such as /compact and /exit. Only a person's request
	// is a prompt.
	switch e.Event {
	case "prompt":
		ss.prompt(&s, e, now)
	case "origin":
		ss.origin(&s, e, now)
	case "subagent-start":
		ss.Attribution.BeginAgent(id, e.Agent, ss.Attribution.PromptOf(id, "", e.Prompt), now)
	}
	if e.Event == "end" || strings.HasSuffix(e.Event, "stop") { // the main loop's turn ends, or an agent's
		ss.Attribution.EndCalls(id, e.Agent, now)
	}
	reader := store.Reader{Session: id, Agent: e.Agent}
	a := wire.SessionAnswer{Mounted: ss.Survey.Mounted(), Trouble: ss.Survey.Trouble()}
	s.Mounted = s.Mounted || a.Mounted
	if e.Event == "prompt" && !e.Checked && !e.NoNews && e.Agent == "" {
		a.MountEnded = s.Mounted && !a.Mounted
		s.Mounted = a.Mounted
		ss.Ingest.WaitHead(ctx, ingest.FreshWait)
		head := ss.Store.Seq() // read before News, so that later changes are reported next time
		a.News = ss.Reads.News(ctx, reader, s.StartSeq, max(s.Told, s.StartSeq))
		s.Told = head
	}
	if !hint || !known {
		if err := ss.Store.Sessions.Put(s); err != nil {
			ss.Log.Warn("session", "err", err) // the disk may be full, but epochs must be passed on
			a.Unsaved = err.Error()
		}
	}
	a.TellOrigin = e.Event == "subagent-start" && ss.undecided.has(id, e.Prompt)
	ss.Reads.Event(reader, e)
	ss.Shown.CountTokens(reader, e.Given)
	return a, nil, nil
}

// maxPromptText is how much of a prompt is stored, in bytes. It suffices for a person to recognise
// the prompt.
const maxPromptText = 200

// prompt registers a prompt. If the client itself sent the prompt to continue an earlier one, it
// belongs to the earlier one.
func (ss *Sessions) prompt(s *store.Session, e wire.SessionEvent, now int64) {
	if e.Continues && ss.continuePrompt(s, e, now) {
		return
	}
	before := s.Prompt
	if ss.newPrompt(s, ss.Attribution.PromptOf(s.ID, "", e.Prompt), e.Text, now) && e.Origin {
		ss.undecided.add(s.ID, e.Prompt, before)
	}
}

// origin determines who sent an undecided prompt, once the client's transcript shows it. Until then
// the prompt is registered as typed by a person.
func (ss *Sessions) origin(s *store.Session, e wire.SessionEvent, now int64) {
	if before := ss.undecided.take(s.ID, e.Prompt); e.Continues && before != "" {
		s.Prompt = before
		ss.continuePrompt(s, e, now)
	}
}

// continuePrompt registers a prompt that the client sent by itself. Such a prompt reports on work.
// It belongs to the prompt that started this work, or else to the current prompt. continuePrompt
// returns false if there is neither.
func (ss *Sessions) continuePrompt(s *store.Session, e wire.SessionEvent, now int64) bool {
	typed := ""
	for _, cause := range e.Causes {
		c, known, err := ss.Store.Sessions.ToolCall(cause)
		if err == nil && known && c.Session == s.ID && c.Prompt != "" {
			typed = c.Prompt
			break
		}
		typed = ss.Attribution.PromptOf(s.ID, cause, "")
		if typed != "" {
			break
		}
	}
	typed = cmp.Or(typed, s.Prompt)
	typed = ss.Attribution.PromptOf(s.ID, "", typed)
	if typed == "" || e.Prompt == "" || typed == e.Prompt {
		return false
	}
	p, known := ss.known(s.ID, e.Prompt) // it may have been registered as typed by a person
	if !known {
		p = store.Prompt{ID: e.Prompt, Session: s.ID, Time: now, Seq: ss.Store.Seq()}
	}
	p.Continues = typed
	s.Prompt = typed
	ss.Attribution.Continue(e.Prompt, typed)
	ss.Attribution.Prompt(s.ID, typed, now)
	if err := ss.Store.Sessions.PutPrompt(p); err != nil {
		ss.Log.Warn("prompt", "err", err)
	}
	return true
}

func (ss *Sessions) known(id store.SessionID, prompt string) (store.Prompt, bool) {
	all, err := ss.Store.Sessions.AllPrompts(id)
	if err != nil {
		ss.Log.Warn("prompts", "err", err)
	}
	i := slices.IndexFunc(all, func(p store.Prompt) bool { return p.ID == prompt })
	if i < 0 {
		return store.Prompt{}, false
	}
	return all[i], true
}

// newPrompt registers the prompt that the session works on from now on. It returns false if the
// session already works on it.
func (ss *Sessions) newPrompt(s *store.Session, prompt, text string, now int64) bool {
	if prompt == "" || prompt == s.Prompt {
		return false
	}
	s.Prompt = prompt
	ss.Attribution.Prompt(s.ID, prompt, now)
	if _, known := ss.known(s.ID, prompt); known {
		return true // the session continues an earlier prompt
	}
	if err := ss.Store.Sessions.PutPrompt(store.Prompt{ID: prompt, Session: s.ID, Time: now, Text: cmdline.Cut(strings.TrimSpace(cmdline.Text(text)), maxPromptText), Seq: ss.Store.Seq()}); err != nil {
		ss.Log.Warn("prompt", "err", err)
	}
	return true
}

func set(to *string, v string) {
	if v != "" {
		*to = v
	}
}

func (ss *Sessions) toolBegin(ctx context.Context, r *wire.Request, q wire.ToolCall) (any, []byte, error) {
	if q.ToolUse == "" {
		return nil, nil, wire.Errorf(wire.ErrBadRequest, "", "the tool call has no tool_use id")
	}
	owner := attribution.OwnerOf(q.PID)
	if r.Hello.Client == "mcp" && ss.Attribution.RecordToolProcess(q, owner) {
		return wire.ToolBeginAnswer{}, nil, nil // the client's hook has already reported the call
	}
	q.Command = cmdline.Text(q.Command)
	ss.meetOnce(q.Session)
	now := time.Now().UnixNano()
	if q.Session == "" { // cachebro's own server does not know its client's session
		q.Session = string(ss.Attribution.SessionOf(owner, now))
	} else if r.Hello.Client != "mcp" && owner.PID != 0 {
		ss.Attribution.Client(owner, store.SessionID(q.Session), now)
	}
	var a wire.ToolBeginAnswer
	a.TellOrigin = q.Agent == "" && ss.undecided.has(store.SessionID(q.Session), q.Prompt)
	q.Prompt = ss.Attribution.PromptOf(store.SessionID(q.Session), q.Agent, q.Prompt)
	// Register the prompt of the call if it is unknown, because the event that announces a prompt
	// may have been lost. A sub-agent's call registers none, because it may belong to an earlier
	// prompt.
	if s, known, err := ss.Store.Sessions.Get(store.SessionID(q.Session)); err == nil && known && q.Agent == "" && ss.newPrompt(&s, q.Prompt, "", now) {
		if err := ss.Store.Sessions.Put(s); err != nil {
			ss.Log.Warn("session", "err", err)
		}
	}
	ss.Attribution.BeginTool(q, owner, now)
	if err := ss.Store.Sessions.PutToolCall(begun(q, now)); err != nil {
		ss.Log.Warn("tool call", "err", err)
	}
	ss.Reads.NoteContext(store.Reader{Session: store.SessionID(q.Session), Agent: q.Agent}, q.Context)
	if q.Tool == "Edit" || q.Tool == "Write" || q.Tool == "NotebookEdit" {
		a.Warnings, a.Held = ss.staleWarnings(ctx, q)
	}
	return a, nil, nil
}

// toolPlace tells cachebro's MCP server in which directory a call's client works, so that the
// server serves that project.
func (ss *Sessions) toolPlace(_ context.Context, q wire.ToolCall) (a wire.ToolPlace, body []byte, err error) {
	a.Cwd = ss.Attribution.Cwd(q.ToolUse)
	return a, nil, nil
}

func begun(q wire.ToolCall, now int64) store.ToolCall {
	return store.ToolCall{ID: q.ToolUse, Session: store.SessionID(q.Session), Agent: q.Agent, Prompt: q.Prompt, Tool: q.Tool, Title: title(q), Begin: now, PID: uint32(max(q.PID, 0))}
}

// title returns the text that the log shows for a tool call.
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

func (ss *Sessions) toolEnd(_ context.Context, r *wire.Request, q wire.ToolCall) (any, []byte, error) {
	q.Command = cmdline.Text(q.Command)
	q.Prompt = ss.Attribution.PromptOf(store.SessionID(q.Session), q.Agent, q.Prompt)
	now := time.Now().UnixNano()
	ss.Attribution.EndTool(q.ToolUse, q.Background, q.Failed, now)
	ss.Shown.CountTokens(store.Reader{Session: store.SessionID(q.Session), Agent: q.Agent}, q.Given)
	c, ok, err := ss.Store.Sessions.ToolCall(q.ToolUse)
	if err != nil {
		return nil, nil, err
	}
	if !ok {
		c = begun(q, now)
	}
	c.Prompt = ss.Attribution.PromptOf(c.Session, "", c.Prompt) // by now the prompt may be known to continue another
	c.Failed = c.Failed || q.Failed
	if c.End == 0 || !q.Background {
		c.End = now
	}
	if err := ss.Store.Sessions.PutToolCall(c); err != nil {
		ss.Log.Warn("tool call", "err", err)
	}
	return wire.Empty{}, nil, nil
}

// staleWarnings returns warnings for a reader that is about to edit files, if somebody else has
// changed them since the reader saw them. held is the reason why the call must wait, or "" if it
// need not.
func (ss *Sessions) staleWarnings(ctx context.Context, q wire.ToolCall) (out []string, held string) {
	ss.Ingest.WaitHead(ctx, ingest.FreshWait)
	session := store.SessionID(q.Session)
	for _, raw := range q.Paths {
		p, err := ss.Paths.Clean(raw)
		if err != nil || p == "" {
			continue
		}
		if q.Hold && held == "" {
			held = ss.Reads.Hold(ctx, store.Reader{Session: session, Agent: q.Agent}, p)
		}
		if w := ss.Reads.Stale(ctx, store.Reader{Session: session, Agent: q.Agent}, p); w != "" {
			out = append(out, w)
		}
	}
	return out, held
}

// Live counts sessions that have not ended and whose client is still running.
func (ss *Sessions) Live() int {
	all, err := ss.Store.Sessions.List(200)
	if err != nil {
		return 0
	}
	n := 0
	for _, s := range all {
		if s.Ended != 0 {
			continue
		}
		live := time.Since(onwire.Time(s.Last)).Abs() < time.Hour
		if s.PID != 0 {
			live = attribution.Alive(int(s.PID), s.PStart)
		}
		if live {
			n++
		}
	}
	return n
}

// Unreported returns the session with the newest change of the last day among the sessions that no
// hook has reported, or "". Such sessions are known only from the environment of their processes.
func (ss *Sessions) Unreported() (id string) {
	ids, err := ss.Store.Sessions.Beginning("")
	if err != nil {
		return ""
	}
	newest := time.Now().Add(-24 * time.Hour).UnixNano()
	for _, name := range ids {
		if _, known, err := ss.Store.Sessions.Get(store.SessionID(name)); known || err != nil {
			continue
		}
		vs, _, err := ss.Store.Log(store.Filter{Session: store.SessionID(name), Limit: 1})
		if err == nil && len(vs) > 0 && vs[0].Time > newest {
			id, newest = name, vs[0].Time
		}
	}
	return id
}
