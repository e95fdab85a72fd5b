package readers

import (
	"sync"
	"time"

	"cachebro/store"
	"cachebro/store/leaf/cache"
)

// Contents fetches old versions. An error means: gone, and so no diff.
type Contents interface {
	Content(h store.Hash) ([]byte, error)
	// Has reports whether Content would find it. What was pruned or purged is
	// shown no more, even while a copy lies in memory.
	Has(h store.Hash) bool
}

// KV is the small persistence that the shown state and the accounts need. Keys
// are unique within it; values are bounded by Options.MaxFiles.
type KV interface {
	Get(key string) (value []byte, ok bool, err error)
	Set(key string, value []byte) error
	Delete(key string) error
	Scan(prefix string, fn func(key string, value []byte) error) error
}

// Options; the zero value is usable.
type Options struct {
	Now         func() time.Time // time.Now
	Location    *time.Location   // for times of day in texts; time.Local
	IdleExpiry  time.Duration    // a base that was neither shown nor confirmed for so long is gone; 30 min
	TokenExpiry int64            // a base is gone after so many tokens that came since, unless the context is known to be whole; 40,000
	// Began is when the last process before this one began, in ns: what was saved
	// before that has been taken back by it. 0: not known.
	Began       int64
	MaxSessions int // least recently active ones go first; 64
	MaxFiles    int // per reader, least recently asked go first; 1024
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

// maxViews bytes of rendered contents are kept.
const maxViews = 8 << 20

// maxAgents per session; a session with more forgets the least recent one.
const maxAgents = 64

// Tracker holds what every reader was shown. Safe for concurrent use.
type Tracker struct {
	contents Contents
	kv       KV
	o        Options
	metas    *metaCache
	scripts  *scriptCache
	views    *viewCache
	accounts *accounts
	orphans  orphans

	mu       sync.Mutex // guards sessions and what they hold except readers' insides
	sessions map[store.SessionID]*session
}

type session struct {
	agents map[string]*reader
	last   int64 // ns, latest activity
}

// New takes back what the last Close saved. kv may
// be nil: then nothing outlives the process.
func New(contents Contents, kv KV, o Options) (*Tracker, error) {
	s := &Tracker{
		contents: contents,
		kv:       kv,
		o:        o.filled(),
		metas:    cache.New[metaKey, meta](4096, nil),
		scripts:  cache.New[scriptKey, *found](64, nil),
		views:    newViewCache(maxViews),
		accounts: newAccounts(),
		sessions: map[store.SessionID]*session{},
	}
	return s, s.load()
}

func (s *Tracker) now() int64 { return s.o.Now().UnixNano() }

// reader finds the reader's state; with make it is created, in a new epoch.
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

// evictLocked forgets the least recently active session. s.mu is held.
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

// evict forgets the least recently active agent.
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
	var out []*reader
	if ss := s.sessions[id]; ss != nil {
		for _, r := range ss.agents {
			out = append(out, r)
		}
	}
	return out
}

func (s *Tracker) all() []*reader {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*reader
	for _, ss := range s.sessions {
		for _, r := range ss.agents {
			out = append(out, r)
		}
	}
	return out
}

// Forget drops everything a session was shown: the next reads are full.
func (s *Tracker) Forget(id store.SessionID) {
	for _, r := range s.readers(id) {
		r.newEpoch()
	}
}

// Pins is the set of contents that live readers' diffs would start from;
// retention must not take them.
func (s *Tracker) Pins() map[store.Hash]struct{} {
	now := s.now()
	pins := map[store.Hash]struct{}{}
	for _, r := range s.all() {
		r.pins(pins, now, s.o)
	}
	return pins
}
