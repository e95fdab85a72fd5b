package readers

import (
	"errors"
	"sort"
	"sync"

	"github.com/fxamacker/cbor/v2"

	"cachebro/store"
	"cachebro/store/leaf/loop"
	"cachebro/store/wire"
)

// Count sums up deliveries, in estimated tokens. Full is their cost without cachebro, and Sent is
// their actual cost with labels.
type Count struct {
	Calls     int64 `cbor:"1,keyasint,omitempty"`
	Full      int64 `cbor:"2,keyasint,omitempty"`
	Sent      int64 `cbor:"3,keyasint,omitempty"`
	Overhead  int64 `cbor:"4,keyasint,omitempty"` // text injected in addition to results
	Unchanged int64 `cbor:"5,keyasint,omitempty"` // number of answers
	Diffs     int64 `cbor:"6,keyasint,omitempty"`
}

// Saved returns the tokens saved; it may be negative.
func (c Count) Saved() int64 { return c.Full - c.Sent - c.Overhead }

func (c *Count) add(o Count, sign int64) {
	c.Calls += sign * o.Calls
	c.Full += sign * o.Full
	c.Sent += sign * o.Sent
	c.Overhead += sign * o.Overhead
	c.Unchanged += sign * o.Unchanged
	c.Diffs += sign * o.Diffs
}

// ToolCount is the Count of one tool.
type ToolCount struct {
	Tool string
	Count
}

// Metrics sums up the counts of sessions.
type Metrics struct {
	Count
	Tools    []ToolCount // by name
	Contexts int64       // number of context windows that received something
	Schema   int64       // tokens of the tool schema in each context; part of Overhead
}

// Percent returns Saved as a percentage of Full, 0 if nothing was read.
func (m Metrics) Percent() float64 {
	if m.Full == 0 {
		return 0
	}
	return float64(m.Saved()) / float64(m.Full) * 100
}

// accounts holds the counts per session, agent and tool.
type accounts struct {
	mu       sync.Mutex // guards the fields below
	sessions map[store.SessionID]*account
	order    uint64
	dirty    map[store.SessionID]struct{} // changed since they were last saved
	gone     []store.SessionID            // dropped since the last save
	news     chan struct{}                // capacity 1, never closed: signals that there is something to save
}

type account struct {
	Counts   map[string]map[string]*Count `cbor:"1,keyasint"` // agent, tool
	Contexts int64                        `cbor:"2,keyasint"`
	Schema   int64                        `cbor:"3,keyasint"`
	Used     uint64                       `cbor:"4,keyasint"`
	Told     toldCounts                   `cbor:"5,keyasint"` // the counts at the last delta query
}

type toldCounts struct {
	Tools    map[string]Count `cbor:"1,keyasint"`
	Contexts int64            `cbor:"3,keyasint"`
	Schema   int64            `cbor:"4,keyasint"` // tokens of the tool schema in all contexts
}

// maxAccounts limits the number of sessions whose counts are stored.
const maxAccounts = 512

func newAccounts() *accounts {
	return &accounts{sessions: map[store.SessionID]*account{}, dirty: map[store.SessionID]struct{}{}, news: make(chan struct{}, 1)}
}

// changedLocked marks an account as unsaved. The caller holds l.mu.
func (l *accounts) changedLocked(id store.SessionID) {
	l.dirty[id] = struct{}{}
	loop.Wake(l.news)
}

// changes returns the encoded accounts that changed since the last call, and the IDs of the dropped
// ones.
func (l *accounts) changes() (values map[store.SessionID][]byte, gone []store.SessionID, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	values = map[store.SessionID][]byte{}
	for id := range l.dirty {
		b, e := cbor.Marshal(l.sessions[id])
		if e != nil {
			err = errors.Join(err, e)
			continue
		}
		values[id] = b
	}
	clear(l.dirty)
	gone, l.gone = l.gone, nil
	return values, gone, err
}

// markUnsaved marks an account as unsaved after a failure.
func (l *accounts) markUnsaved(id store.SessionID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sessions[id] != nil {
		l.changedLocked(id)
	}
}

func (l *accounts) accountLocked(id store.SessionID) *account {
	a := l.sessions[id]
	if a == nil {
		if len(l.sessions) >= maxAccounts {
			var oldest store.SessionID
			var used uint64
			for k, v := range l.sessions {
				if used == 0 || v.Used < used {
					oldest, used = k, v.Used
				}
			}
			delete(l.sessions, oldest)
			delete(l.dirty, oldest)
			l.gone = append(l.gone, oldest)
		}
		a = &account{Counts: map[string]map[string]*Count{}}
		l.sessions[id] = a
	}
	l.order++
	a.Used = l.order
	l.changedLocked(id)
	return a
}

func (l *accounts) add(id store.Reader, tool string, c Count) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accountLocked(id.Session).countLocked(id.Agent, tool).add(c, 1)
}

// countLocked returns an agent's count of a tool, creating it if needed. The caller holds
// accounts.mu.
func (a *account) countLocked(agent, tool string) *Count {
	tools := a.Counts[agent]
	if tools == nil {
		tools = map[string]*Count{}
		a.Counts[agent] = tools
	}
	sum := tools[tool]
	if sum == nil {
		sum = &Count{}
		tools[tool] = sum
	}
	return sum
}

// answer counts a delivered answer. The result of an edit has no kind and is not counted, because
// it saves nothing.
func (l *accounts) answer(id store.Reader, tool string, a Answer) {
	if a.Kind == "" {
		return
	}
	c := Count{Calls: 1, Full: int64(a.FullTokens), Sent: int64(a.Tokens)}
	switch a.Kind {
	case wire.ReadUnchanged:
		c.Unchanged = 1
	case wire.ReadDiff, wire.ReadSpan:
		c.Diffs = 1
	}
	l.add(id, tool, c)
}

func (l *accounts) context(id store.Reader) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accountLocked(id.Session).Contexts++
}

// Spend counts deliveries made without Decide: results of other tools (full and sent) or, if
// overhead is set, injected text. For the tool "schema", sent is the size of the tool schema, which
// costs that many tokens in every context of the session.
func (s *Tracker) Spend(id store.Reader, tool string, full, sent int64, overhead bool, answer string) {
	if tool == "schema" {
		s.accounts.mu.Lock()
		defer s.accounts.mu.Unlock()
		a := s.accounts.accountLocked(id.Session)
		a.Schema = sent
		return
	}
	c := Count{Calls: 1, Full: full, Sent: sent}
	if overhead {
		c = Count{Overhead: sent}
	}
	switch answer {
	case wire.ReadUnchanged:
		c.Unchanged = 1
	case wire.ReadDiff, wire.ReadSpan:
		c.Diffs = 1
	}
	s.accounts.add(id, tool, c)
	s.Delivered(id, int(sent))
}

// Afford reports whether a session has saved enough to pay for an injected text of sent tokens,
// plus a quarter because estimates are imprecise. If it has, the text is counted. Otherwise the
// text must not be sent.
func (s *Tracker) Afford(id store.Reader, tool string, sent int64) bool {
	l := s.accounts
	l.mu.Lock()
	a := l.accountLocked(id.Session)
	m, tools := Metrics{}, map[string]Count{}
	a.sum(&m, tools, false)
	left := -m.Schema
	for _, c := range tools {
		left += c.Saved()
	}
	ok := sent+sent/4 <= left
	if ok {
		a.countLocked(id.Agent, tool).Overhead += sent
	}
	l.mu.Unlock()
	if ok {
		s.Delivered(id, int(sent))
	}
	return ok
}

// Metrics sums up the counts of a session, or of all sessions if id is "". If delta is set, it
// returns only what was added since the last query with delta.
func (s *Tracker) Metrics(id store.SessionID, delta bool) Metrics {
	l := s.accounts
	l.mu.Lock()
	defer l.mu.Unlock()
	m := Metrics{}
	tools := map[string]Count{}
	for sid, a := range l.sessions {
		if id == "" || sid == id {
			a.sum(&m, tools, delta)
			if delta {
				l.changedLocked(sid)
			}
		}
	}
	for name, c := range tools {
		m.Tools = append(m.Tools, ToolCount{name, c})
		m.add(c, 1)
	}
	m.Overhead += m.Schema
	sort.Slice(m.Tools, func(i, j int) bool { return m.Tools[i].Tool < m.Tools[j].Tool })
	return m
}

func (a *account) sum(m *Metrics, tools map[string]Count, delta bool) {
	now := toldCounts{Tools: map[string]Count{}, Contexts: a.Contexts}
	if a.Schema > 0 {
		// A session that received the tool schema has a context, even without a read.
		now.Contexts = max(now.Contexts, 1)
	}
	now.Schema = a.Schema * now.Contexts
	for _, byTool := range a.Counts {
		for tool, c := range byTool {
			addTo(now.Tools, tool, *c)
		}
	}
	var before toldCounts
	if delta {
		before = a.Told
		a.Told = now
	}
	merge(tools, now.Tools, before.Tools)
	m.Contexts += now.Contexts - before.Contexts
	m.Schema += now.Schema - before.Schema
}

// merge adds to sum the growth from before to now.
func merge(sum, now, before map[string]Count) {
	for name, c := range now {
		c.add(before[name], -1)
		if c != (Count{}) {
			addTo(sum, name, c)
		}
	}
}

func addTo(m map[string]Count, name string, c Count) {
	sum := m[name]
	sum.add(c, 1)
	m[name] = sum
}
