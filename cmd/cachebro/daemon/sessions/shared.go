package sessions

import (
	"context"
	"slices"
	"sync"
	"time"

	"cachebro/cmd/cachebro/daemon/attribution"
	"cachebro/store"
	"cachebro/store/wire"
)

// A session may work in several projects. Hooks report to each project's daemon once they know
// that the session works there. A daemon asks the other daemons for what happened before that,
// above all for the call in progress. If a command writes into a second project, no hook learns
// of that directory or file, so the first process of the session that appears in the second
// project makes its daemon ask the others.

const (
	// meetAgain is how soon other daemons are asked again about a session that none of them
	// knew.
	meetAgain = 2 * time.Second
	// sharedFor is the age up to which a call is shared, because background commands go on
	// writing. sharedPrompts is how many prompts are shared.
	sharedFor     = time.Hour
	sharedPrompts = 20
	// outsideWait is how long a project's daemon may take to answer the daemon of the
	// user's own history.
	outsideWait = 5 * time.Second
)

// meetings records until when the other daemons need not be asked about a session again.
type meetings struct {
	mu    sync.Mutex // guards until
	until map[string]time.Time
}

// due reports whether the other daemons are to be asked about a session now. It returns true
// to one caller only.
func (m *meetings) due(session string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if now.Before(m.until[session]) {
		return false
	}
	if m.until == nil {
		m.until = map[string]time.Time{}
	}
	for s, t := range m.until {
		if now.After(t) {
			delete(m.until, s)
		}
	}
	m.until[session] = now.Add(meetAgain)
	return true
}

// known records that another daemon has reported a session. From then on hooks report the
// rest.
func (m *meetings) known(session string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.until[session] = time.Now().Add(24 * time.Hour)
}

func (m *meetings) forget(session string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.until, session)
}

// meetOnce asks the daemons of the other projects in which a session works what they know of
// it, and of the sessions that clients began within it, unless that has been done.
func (ss *Sessions) meetOnce(session string) {
	ss.meet(session)
	for _, inner := range ss.Places.SessionsWithin(session) {
		if ss.meet(inner) { // its hook is just reporting it: ask again for the next process
			ss.met.forget(inner)
		}
	}
}

// meet asks the session's other projects about one session. It waits no longer than a hook would. It
// returns true if all of them answered and none knows the session yet.
func (ss *Sessions) meet(session string) (unknown bool) {
	if session == "" || !ss.met.due(session) {
		return false
	}
	roots := ss.Places.SessionProjects(session)
	others := slices.DeleteFunc(slices.Clone(roots), func(root string) bool { return root == ss.Paths.Root })
	if len(others) == 0 {
		return true
	}
	// Join first, so that no event falls between our question and the hooks' next report.
	if err := ss.Places.JoinSession(session, ss.Paths.Root); err != nil {
		ss.Log.Warn("join a session", "err", err)
		return false
	}
	unknown = true
	for _, root := range others {
		shared, err := ss.ask(root, session)
		if err != nil || !shared.Known {
			unknown = unknown && err == nil
			continue // its daemon may not be running; the next process asks again
		}
		unknown = false
		if err := ss.takeShared(store.SessionID(session), shared); err != nil {
			ss.Log.Warn("ask another project about a session", "root", root, "err", err)
			continue
		}
		ss.met.known(session)
	}
	return unknown
}

func (ss *Sessions) ask(root, session string) (wire.SharedSession, error) {
	patience := wire.HookTimeouts
	if ss.Paths.Root == wire.OutsideRoot { // no hook reports sessions here, and nobody waits
		patience = wire.Timeouts{Connect: outsideWait, Answer: outsideWait}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience.Connect+patience.Answer)
	defer cancel()
	c, err := wire.Dial(ctx, ss.Places, wire.Hello{Version: ss.Version, Client: "daemon", Root: root}, patience)
	if err != nil {
		if c != nil {
			c.Close()
		}
		return wire.SharedSession{}, err
	}
	defer c.Close()
	return wire.Call[wire.SharedSession](ctx, c, wire.MShared, wire.SessionQuery{Session: session})
}

// shared answers the daemon of another project.
func (ss *Sessions) shared(_ context.Context, q wire.SessionQuery) (wire.SharedSession, []byte, error) {
	s, known, err := ss.Store.Sessions.Get(store.SessionID(q.Session))
	if err != nil || !known {
		return wire.SharedSession{}, nil, err
	}
	a := wire.SharedSession{Known: true, Client: s.Client, Cwd: s.Cwd, Transcript: s.Transcript, Source: s.Source, Started: s.Started, PID: s.PID, PStart: s.PStart}
	prompts, err := ss.Store.Sessions.AllPrompts(s.ID)
	if err != nil {
		return wire.SharedSession{}, nil, err
	}
	for _, p := range prompts[max(0, len(prompts)-sharedPrompts):] {
		a.Prompts = append(a.Prompts, wire.SharedPrompt{ID: p.ID, Time: p.Time, Text: p.Text, Continues: p.Continues})
	}
	a.Agents = ss.Attribution.Agents(s.ID)
	a.Calls = ss.Attribution.Calls(q.Session, time.Now().Add(-sharedFor).UnixNano())
	return a, nil, nil
}

// takeShared records what another daemon reports about a session, except what is known here
// already.
func (ss *Sessions) takeShared(id store.SessionID, a wire.SharedSession) error {
	s, known, err := ss.Store.Sessions.Get(id)
	if err != nil {
		return err
	}
	if !known {
		s = store.Session{ID: id, Client: a.Client, Cwd: a.Cwd, Transcript: a.Transcript, Source: a.Source, Started: a.Started, PID: a.PID, PStart: a.PStart, StartSeq: ss.Store.Seq()}
	}
	if a.PID != 0 {
		ss.Attribution.Client(attribution.Key{PID: a.PID, Start: a.PStart}, id, a.Started)
	}
	here, err := ss.Store.Sessions.AllPrompts(id)
	if err != nil {
		return err
	}
	for _, p := range a.Prompts {
		if slices.ContainsFunc(here, func(old store.Prompt) bool { return old.ID == p.ID }) {
			continue
		}
		if p.Continues != "" {
			ss.Attribution.Continue(p.ID, p.Continues)
		}
		s.Prompt = ss.Attribution.PromptOf(id, "", p.ID)
		ss.Attribution.Prompt(id, s.Prompt, p.Time)
		if err := ss.Store.Sessions.PutPrompt(store.Prompt{ID: p.ID, Session: id, Time: p.Time, Text: p.Text, Seq: ss.Store.Seq(), Continues: p.Continues}); err != nil {
			return err
		}
	}
	for agent, prompt := range a.Agents {
		ss.Attribution.BeginAgent(id, agent, prompt, time.Now().UnixNano())
	}
	s.Last = max(s.Last, time.Now().UnixNano())
	if err := ss.Store.Sessions.Put(s); err != nil {
		return err
	}
	for _, c := range a.Calls {
		ss.Attribution.TakeCall(c)
		call := store.ToolCall{ID: c.Call.ToolUse, Session: id, Agent: c.Call.Agent, Prompt: c.Call.Prompt, Tool: c.Call.Tool, Title: title(c.Call), Begin: c.Begin, End: c.End, Failed: c.Call.Failed, PID: uint32(max(c.Call.PID, 0))}
		if err := ss.Store.Sessions.PutToolCall(call); err != nil {
			return err
		}
	}
	return nil
}
