package readers

import (
	"cmp"
	"slices"

	"cachebro/store"
)

// Event is what a client reports about its context windows.
type Event struct {
	Reader store.Reader
	// Name is start, end, prompt, precompact, postcompact, subagent-start, subagent-stop, stop,
	// connect, disconnect or lost (events were missed). It may also be the result of reading the
	// client's transcript: held (the context has lost nothing), fell (it has lost something
	// unknown) or unsure.
	Name string
}

// Event records an event. Most events begin a new epoch. A compaction or a start without an agent
// applies to every agent of the session. A needless epoch costs a full read, but a missing one
// would make a later answer false.
func (s *Tracker) Event(e Event) {
	switch e.Name {
	case "start", "precompact", "postcompact", "lost":
		if e.Reader.Agent == "" {
			for _, r := range s.readers(e.Reader.Session) {
				r.newEpoch()
			}
		} else if r := s.reader(e.Reader, false); r != nil {
			r.newEpoch()
		}
	case "subagent-start", "subagent-stop", "connect", "fell":
		if r := s.reader(e.Reader, false); r != nil {
			r.newEpoch()
		}
	case "end", "disconnect":
		for _, r := range s.readers(e.Reader.Session) {
			r.newEpoch()
		}
		s.mu.Lock()
		delete(s.sessions, e.Reader.Session)
		s.mu.Unlock()
		return
	}
	r := s.reader(e.Reader, true)
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch e.Name {
	case "held":
		r.held = r.delivered
	case "unsure":
		r.unsure = r.delivered + 1
	}
}

// TranscriptCheck drops the lines that the main agent's context has lost. alive lists the tool uses
// on the transcript's active chain, which leads from its beginning to the present message and
// leaves out abandoned branches. Lines shown without a tool use cannot be checked, so they are
// dropped. If the transcript was not readable, everything is dropped.
func (s *Tracker) TranscriptCheck(id store.SessionID, alive []string, readable bool) {
	r := s.reader(store.Reader{Session: id}, false)
	if r == nil {
		return
	}
	if !readable {
		r.newEpoch()
		return
	}
	on := make(map[string]struct{}, len(alive))
	for _, a := range alive {
		on[a] = struct{}{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for path, f := range r.files {
		var kept []piece
		same := true
		for _, p := range f.pieces {
			holds, heard := onChain(p.Deps, on)
			same = same && holds
			if !holds {
				// The text cannot be relied on, but the reader may know that the content existed.
				p.Rendering, p.Plain = "", false
			}
			if heard {
				kept = append(kept, p)
			}
		}
		if !same {
			f.pieces, f.was = kept, nil
			f.page = page{}
			f.gen++
			clear(f.asks)
		}
		if len(kept) == 0 {
			delete(r.files, path)
		}
	}
	for tool := range r.waiting {
		if _, ok := on[tool]; !ok {
			delete(r.waiting, tool)
		}
	}
	order := r.order[:0:0]
	for _, tool := range r.order {
		if r.waiting[tool] != nil {
			order = append(order, tool)
		}
	}
	r.order = order
}

// onChain examines whether the tool calls that a piece depends on are on the transcript's active
// chain. holds is true if all of them certainly are, and heard if at least one of them may be.
func onChain(deps []string, on map[string]struct{}) (holds, heard bool) {
	holds = len(deps) > 0
	for _, d := range deps {
		_, ok := on[d]
		holds = holds && ok
		heard = heard || ok || d == ""
	}
	return holds, heard || len(deps) == 0
}

// Delivered counts tokens that a context window received without Decide and Commit. Earlier text
// expires sooner because of them (Options.TokenExpiry).
func (s *Tracker) Delivered(id store.Reader, n int) {
	if r := s.reader(id, false); r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.deliveredLocked(s, n)
	}
}

// CountTokens counts the tokens of prompts, answers and results of other tools in a context.
// Earlier text expires sooner because of them.
func (s *Tracker) CountTokens(id store.Reader, tokens int64) {
	if tokens <= 0 {
		return
	}
	if r := s.reader(id, false); r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.delivered += tokens
	}
}

// Held lists the files whose lines the reader may hold.
func (s *Tracker) Held(id store.Reader) (out []store.Path) {
	r := s.reader(id, false)
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for p, f := range r.files {
		if slices.ContainsFunc(f.pieces, func(q piece) bool { return q.Rendering != "" && q.Last >= q.First }) {
			out = append(out, p)
		}
	}
	return out
}

// ShownSince returns the content of a file that the reader was last shown or wrote itself, and when
// (ns). how is a phrase like "you last read it at 12:41". It is used for warnings that somebody
// else has changed the file since.
func (s *Tracker) ShownSince(id store.Reader, p store.Path) (h store.Hash, at int64, how string, ok bool) {
	r := s.reader(id, false)
	if r == nil {
		return h, 0, "", false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.files[p]
	if f == nil {
		return h, 0, "", false
	}
	var n uint64
	for i := range f.pieces {
		if q := &f.pieces[i]; q.N >= n && q.Rendering != "" && q.Last >= q.First {
			h, ok = q.Hash, true
			at, n = q.Used, q.N
			how = "you last read it at " + s.clockTime(at)
			if q.From.edits() {
				how = s.callName(q.From, "")
			}
		}
	}
	return h, at, how, ok
}

// Shown is a run of lines of a content that a reader was shown.
type Shown struct {
	Hash        store.Hash `json:"hash"`
	First, Last int
}

// ShownBefore returns what a reader knew of a file at a time (ns). base is the newest content that
// it had seen whole, or else the oldest content of which it had seen lines. when is the time at
// which it last saw base. later lists the lines of later contents that it was shown. ok is false if
// nothing is known.
func (s *Tracker) ShownBefore(id store.Reader, p store.Path, at int64) (base store.Hash, when int64, later []Shown, ok bool) {
	r := s.reader(id, false)
	if r == nil {
		return base, 0, nil, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.files[p]
	if f == nil {
		return base, 0, nil, false
	}
	var ps []piece // newest first
	doubt := uint64(0)
	for _, q := range append(slices.Clone(f.was), f.pieces...) {
		switch {
		case q.From.At > at:
		case q.Rendering == "":
			doubt = max(doubt, q.N)
		case q.Last >= q.First || q.Total == 0:
			ps = append(ps, q)
		}
	}
	if f.told.ShownChange && f.told.At <= at {
		ps = append(ps, piece{Hash: f.told.Hash, First: 1, N: f.told.N, Used: f.told.At})
	}
	slices.SortFunc(ps, func(a, b piece) int { return cmp.Compare(b.N, a.N) })
	for len(ps) > 0 && ps[0].N > doubt {
		h, when := ps[0].Hash, int64(0)
		var of []piece
		ps = slices.DeleteFunc(ps, func(q piece) bool {
			if q.Hash == h {
				of, when = append(of, q), max(when, q.Used)
			}
			return q.Hash == h
		})
		if whole(of) || len(ps) == 0 {
			return h, min(when, at), later, true
		}
		for _, q := range of {
			later = append(later, Shown{h, q.First, q.Last})
		}
	}
	return base, 0, nil, false
}

// whole reports whether pieces of one content cover all its lines.
func whole(ps []piece) bool {
	slices.SortFunc(ps, func(a, b piece) int { return cmp.Compare(a.First, b.First) })
	next := 1
	for _, q := range ps {
		if q.First <= next {
			next = max(next, q.Last+1)
		}
	}
	return len(ps) > 0 && next > ps[0].Total
}

// NoteReported records that a reader learned of a file's change without a read. shownChange means
// that it was shown the change itself, so its later edits take the change into account.
func (s *Tracker) NoteReported(id store.Reader, p store.Path, h store.Hash, shownChange bool) {
	r := s.reader(id, false)
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if f := r.files[p]; f != nil {
		r.n++
		f.told = told{h, shownChange, r.n, s.now()}
	}
}

// ReportedSince returns what NoteReported last recorded for a file. It returns false if the reader
// was shown lines of the file since.
func (s *Tracker) ReportedSince(id store.Reader, p store.Path) (h store.Hash, shownChange bool, at int64, ok bool) {
	r := s.reader(id, false)
	if r == nil {
		return h, false, 0, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.files[p]
	if f == nil || f.told.At == 0 || slices.ContainsFunc(f.pieces, func(q piece) bool { return q.N > f.told.N }) {
		return h, false, 0, false
	}
	return f.told.Hash, f.told.ShownChange, f.told.At, true
}
