package readers

import (
	"maps"
	"slices"
	"sync"
	"time"

	"cachebro/store"
	"cachebro/store/leaf/cache"
)

// Contents fetches earlier contents. An error means that a content is not available, so no diff is
// possible.
type Contents interface {
	Content(h store.Hash) ([]byte, error)
}

// KV stores the readers' state and the counts. Options.MaxFiles limits the size of the values.
type KV interface {
	Get(key string) (value []byte, ok bool, err error)
	Set(key string, value []byte) error
	Delete(key string) error
	Scan(prefix string, fn func(key string, value []byte) error) error
}

// Options configure a Tracker. The zero value is usable. Each comment ends with the default.
type Options struct {
	Now         func() time.Time // time.Now
	Location    *time.Location   // for times of day in texts; time.Local
	IdleExpiry  time.Duration    // a base expires if it was neither shown nor confirmed for this long; 30 min
	TokenExpiry int64            // a base expires after this many further tokens, unless the context is known to have lost nothing; 40,000
	// Began is when the previous process began, in ns; 0 if unknown. State saved before that time
	// is ignored, because the previous process has already used it.
	Began       int64
	MaxSessions int // above this number, the least recently active session is dropped; 64
	MaxFiles    int // per reader; above this number, the files with the oldest requests are dropped; 1024
}

func (o Options) filled() Options {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Location == nil {
		o.Location = time.Local
	}
	if o.IdleExpiry <= 0 {
		o.IdleExpiry = 30 * time.Minute
	}
	if o.TokenExpiry <= 0 {
		o.TokenExpiry = 40_000
	}
	if o.MaxSessions <= 0 {
		o.MaxSessions = 64
	}
	if o.MaxFiles <= 0 {
		o.MaxFiles = 1024
	}
	return o
}

// maxAgents limits the agents per session. Above it, the least recently active agent is dropped.
const maxAgents = 64

// Tracker records what every reader was shown. It may be used concurrently.
type Tracker struct {
	contents Contents
	kv       KV
	o        Options
	metas    *cache.Cache[metaKey, meta]
	accounts *accounts
	orphans  orphans

	mu       sync.Mutex // guards sessions and their contents, but not the fields of readers
	sessions map[store.SessionID]*session
}

type session struct {
	agents map[string]*reader
	last   int64 // ns, latest activity
}

// New returns a Tracker with the state that the last Close saved. If kv is nil, nothing is saved.
func New(contents Contents, kv KV, o Options) (*Tracker, error) {
	s := &Tracker{
		contents: contents,
		kv:       kv,
		o:        o.filled(),
		metas:    cache.New[metaKey, meta](4096, nil),
		accounts: newAccounts(),
		sessions: map[store.SessionID]*session{},
	}
	return s, s.load()
}

func (s *Tracker) now() int64 { return s.o.Now().UnixNano() }

// reader returns the state of a reader. If make is set, it creates a missing one in a new epoch.
func (s *Tracker) reader(id store.Reader, make bool) *reader {
	if id.Session == "" {
		return nil
	}
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	ss := s.sessions[id.Session]
	if ss == nil {
		if !make {
			return nil
		}
		if len(s.sessions) >= s.o.MaxSessions {
			s.evictLocked()
		}
		ss = &session{agents: map[string]*reader{}}
		s.sessions[id.Session] = ss
	}
	r := ss.agents[id.Agent]
	if r == nil {
		if !make {
			return nil
		}
		if len(ss.agents) >= maxAgents {
			ss.evict()
		}
		r = newReader(id)
		ss.agents[id.Agent] = r
	}
	ss.last = now
	r.active.Store(now)
	return r
}

// evictLocked drops the least recently active session. The caller holds s.mu.
func (s *Tracker) evictLocked() {
	var oldest store.SessionID
	first := true
	for id, ss := range s.sessions {
		if first || ss.last < s.sessions[oldest].last {
			oldest, first = id, false
		}
	}
	delete(s.sessions, oldest)
}

// evict drops the least recently active agent.
func (ss *session) evict() {
	oldest, first := "", true
	for id, r := range ss.agents {
		if first || r.active.Load() < ss.agents[oldest].active.Load() {
			oldest, first = id, false
		}
	}
	delete(ss.agents, oldest)
}

// readers lists the agents of a session.
func (s *Tracker) readers(id store.SessionID) []*reader {
	s.mu.Lock()
	defer s.mu.Unlock()
	ss := s.sessions[id]
	if ss == nil {
		return nil
	}
	return slices.Collect(maps.Values(ss.agents))
}

func (s *Tracker) all() []*reader {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*reader
	for _, ss := range s.sessions {
		out = slices.AppendSeq(out, maps.Values(ss.agents))
	}
	return out
}

// Forget drops the record of what a session was shown, so that its next reads are full.
func (s *Tracker) Forget(id store.SessionID) {
	for _, r := range s.readers(id) {
		r.newEpoch()
	}
}

// PinnedContents returns the bases of possible diffs for live readers. Retention must keep them.
func (s *Tracker) PinnedContents() map[store.Hash]struct{} {
	now := s.now()
	pins := map[store.Hash]struct{}{}
	for _, r := range s.all() {
		r.pins(pins, now, s.o)
	}
	return pins
}
