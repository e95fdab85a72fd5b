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

// A session may work in several projects. Once hooks know that the session works in a project, they
// report to the project's daemon. A daemon asks the other daemons what happened before that, above
// all about the call in progress. If a command writes into a second project, no hook notices. So
// when a process of the session first appears in a project, the project's daemon asks the others.

const (
	// meetAgain is the pause before the other daemons are asked again about a session that none of
	// them knew.
	meetAgain = 2 * time.Second
	// sharedFor is the age up to which calls are shared, because background commands continue to
	// write. sharedPrompts is how many prompts are shared.
	sharedFor     = time.Hour
	sharedPrompts = 20
	// outsideWait is how long the daemon of the user's own history waits for the answer of a
	// project's daemon.
	outsideWait = 5 * time.Second
)

// sharedSession is what one project's daemon tells another project's daemon about a session.
// Session.ID is "" if the daemon does not know the session.
type sharedSession struct {
	Session store.Session
	Prompts []store.Prompt    // oldest first
	Calls   []wire.SharedCall // oldest first
	Agents  map[string]string // maps each sub-agent to the prompt that started it
}

// meetings records until when the other daemons need not be asked about a session again.
type meetings struct {
	mu    sync.Mutex // guards until
	until map[string]time.Time
}

// due reports whether the other daemons should be asked about a session now. It returns true to
// only one caller.
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

// known records that another daemon has reported a session. From then on, hooks report everything
// else.
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

// meetOnce asks the daemons of the session's other projects about the session, and about the
// sessions that clients began within it. It does nothing if they were asked recently.
func (ss *Sessions) meetOnce(session string) {
	ss.meet(session)
	for _, inner := range ss.Places.SessionsWithin(session) {
		if ss.meet(inner) { // its hook is reporting it now, so ask again at the next process
			ss.met.forget(inner)
		}
	}
}

// meet asks the session's other projects about one session. It waits no longer than a hook would.
// It returns true if all of them answered and none knows the session yet.
func (ss *Sessions) meet(session string) (unknown bool) {
	if session == "" || !ss.met.due(session) {
		return false
	}
	roots := ss.Places.SessionProjects(session)
	others := slices.DeleteFunc(slices.Clone(roots), func(root string) bool { return root == ss.Paths.Root })
	if len(others) == 0 {
		return true
	}
	// Join before asking. Hooks then report every event after the answer to this daemon.
	if err := ss.Places.JoinSession(session, ss.Paths.Root); err != nil {
		ss.Log.Warn("join a session", "err", err)
		return false
	}
	unknown = true
	for _, root := range others {
		shared, err := ss.ask(root, session)
		if err != nil || shared.Session.ID == "" {
			unknown = unknown && err == nil
			continue // its daemon may not be running; the next process asks again
		}
		unknown = false
		if err := ss.takeShared(shared); err != nil {
			ss.Log.Warn("ask another project about a session", "root", root, "err", err)
			continue
		}
		ss.met.known(session)
	}
	return unknown
}

func (ss *Sessions) ask(root, session string) (sharedSession, error) {
	patience := wire.HookTimeouts
	if ss.Paths.Root == wire.OutsideRoot { // no hook reports to this history, and nobody waits
		patience = wire.Timeouts{Connect: outsideWait, Answer: outsideWait}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience.Connect+patience.Answer)
	defer cancel()
	c, err := wire.Dial(ctx, ss.Places, wire.Hello{Version: ss.Version, Client: "daemon", Root: root}, patience)
	if err != nil {
		c.Close()
		return sharedSession{}, err
	}
	defer c.Close()
	return wire.Call[sharedSession](ctx, c, wire.MShared, wire.SessionQuery{Session: session})
}

// shared answers the daemon of another project.
func (ss *Sessions) shared(_ context.Context, q wire.SessionQuery) (a sharedSession, _ []byte, err error) {
	s, known, err := ss.Store.Sessions.Get(store.SessionID(q.Session))
	if err != nil || !known {
		return a, nil, err
	}
	prompts, err := ss.Store.Sessions.AllPrompts(s.ID)
	if err != nil {
		return a, nil, err
	}
	return sharedSession{
		Session: s, Prompts: prompts[max(0, len(prompts)-sharedPrompts):], Agents: ss.Attribution.Agents(s.ID),
		Calls: ss.Attribution.Calls(q.Session, time.Now().Add(-sharedFor).UnixNano()),
	}, nil, nil
}

// takeShared records what another daemon reports about a session, except what is already known.
func (ss *Sessions) takeShared(a sharedSession) error {
	there := a.Session
	id := there.ID
	s, known, err := ss.Store.Sessions.Get(id)
	if err != nil {
		return err
	}
	if !known {
		s = store.Session{ID: id, Client: there.Client, Cwd: there.Cwd, Transcript: there.Transcript, Source: there.Source, Started: there.Started, PID: there.PID, PStart: there.PStart, StartSeq: ss.Store.Seq()}
	}
	if there.PID != 0 {
		ss.Attribution.Client(attribution.Key{PID: there.PID, Start: there.PStart}, id, there.Started)
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
		p.Seq = ss.Store.Seq()
		if err := ss.Store.Sessions.PutPrompt(p); err != nil {
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
