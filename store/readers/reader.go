package readers

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"cachebro/store"
)

// reader describes what is known about one context window.
type reader struct {
	id     store.Reader
	active atomic.Int64 // ns, latest activity

	mu        sync.Mutex // guards the fields below
	epoch     uint64
	used      bool   // something was delivered in this epoch
	delivered int64  // tokens, over all epochs
	held      int64  // value of delivered when the context was last found to have lost nothing
	unsure    int64  // delivered + 1 at the last doubt about losses; held then applies only to later deliveries
	n         uint64 // number of deliveries, which orders them
	files     map[store.Path]*file
	waiting   map[string][]*entry // pending deliveries, by tool use
	order     []string            // keys of waiting, oldest first
	given     []uint64            // hashes of lines that cachebro wrote, oldest first
}

// file is what a reader knows of one path.
type file struct {
	pieces []piece // replaced, never changed
	was    []piece // the pieces before the last replacement of all of them
	gen    uint64  // counts replacements
	asks   map[span]ask
	page   page
	told   told
	used   uint64 // reader.n at the last request; the oldest is evicted first
}

// told is a content that the reader learned of without a read. ShownChange means that the reader
// was shown the change that led to this content.
type told struct {
	Hash        store.Hash `cbor:"1,keyasint"`
	ShownChange bool       `cbor:"2,keyasint"`
	N           uint64     `cbor:"3,keyasint"`
	At          int64      `cbor:"4,keyasint"` // ns
}

// span is a requested range of lines.
type span struct{ first, last int }

// ask is the latest answer to a request for a range. It is used to recognise repeated requests.
type ask struct {
	hash   store.Hash
	full   bool // the answer contained the text itself
	tokens int  // tokens of the requested lines
}

// page remembers a truncated diff.
type page struct {
	base, target store.Hash
	rows         int // number of rows sent so far, without a gap from the first one
}

const (
	maxAsks    = 32  // per file
	maxWaiting = 256 // tool uses per reader
)

func newReader(id store.Reader) *reader {
	return &reader{id: id, epoch: 1, files: map[store.Path]*file{}, waiting: map[string][]*entry{}}
}

// newEpoch drops all records, because the client replaced the context window.
func (r *reader) newEpoch() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.epoch++
	r.used = false
	r.clearLocked()
}

func (r *reader) clearLocked() {
	r.files = map[store.Path]*file{}
	r.waiting = map[string][]*entry{}
	r.order = nil
}

// fileLocked returns a path's record, creating it if needed. The caller holds r.mu.
func (r *reader) fileLocked(p store.Path, max int) *file {
	f := r.files[p]
	if f == nil {
		if len(r.files) >= max {
			r.evictLocked()
		}
		f = &file{asks: map[span]ask{}}
		r.files[p] = f
	}
	r.n++
	f.used = r.n
	return f
}

// evictLocked drops the records of a quarter of the files, those with the oldest requests. Dropping
// many at once spreads the cost. The caller holds r.mu.
func (r *reader) evictLocked() {
	used := make([]uint64, 0, len(r.files))
	for _, f := range r.files {
		used = append(used, f.used)
	}
	slices.Sort(used)
	limit := used[len(used)/4]
	for p, f := range r.files {
		if f.used <= limit {
			delete(r.files, p)
		}
	}
}

// snapshot is the state that a decision uses.
type snapshot struct {
	epoch  uint64
	gen    uint64
	pieces []piece
	asks   map[span]ask // a copy
	page   page
	clock  clock
	doubt  bool // a pending delivery may have changed what the reader knows of the file
}

// takeSnapshot takes a snapshot for a path. If the file was renamed, it first moves the record to
// the new name, unless the new name already has a record.
func (r *reader) takeSnapshot(q Request, key store.Path, now int64, o Options) snapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.fileLocked(key, o.MaxFiles)
	for _, old := range q.Renamed {
		was := r.files[old]
		if len(f.pieces) > 0 || was == nil || len(was.pieces) == 0 || old == key {
			continue
		}
		moved := slices.Clone(was.pieces)
		for i := range moved {
			if moved[i].As == "" {
				moved[i].As = old
			}
		}
		f.pieces, f.gen = moved, f.gen+1
		delete(r.files, old)
	}
	s := snapshot{
		epoch: r.epoch, gen: f.gen, pieces: f.pieces, page: f.page,
		clock: r.clockLocked(now, o),
		asks:  maps.Clone(f.asks),
	}
	for _, es := range r.waiting {
		for _, e := range es {
			if e.path == key && e.informs() {
				s.doubt = true
			}
		}
	}
	return s
}

// noteLocked adds the effect of a delivery to the record. The caller holds r.mu.
func (r *reader) noteLocked(key store.Path, e effect, now int64, o Options) {
	f := r.fileLocked(key, o.MaxFiles)
	switch {
	case e.forget:
		r.n++
		p := unknown()
		p.N = r.n
		p.Used, p.From.At = now, now
		f.was = f.pieces
		f.pieces, f.page = []piece{p}, page{}
		f.gen++
	case len(e.pieces) > 0:
		r.n++
		for _, p := range e.pieces {
			p.N = r.n
			p.Used, p.From.At = now, now
			if e.fresh {
				p.At, p.Mark = now, r.delivered
			}
			before := f.pieces
			f.pieces = with(f.pieces, p)
			if len(f.pieces) == 1 && len(before) > 0 {
				f.was = before
			}
		}
		f.gen++
	}
	if e.confirmed != (store.Hash{}) {
		f.pieces = slices.Clone(f.pieces)
		for i := range f.pieces {
			if p := &f.pieces[i]; p.Hash == e.confirmed && p.First <= e.last && p.Last >= e.first {
				p.Used = now
			}
		}
	}
	if e.page != nil {
		f.page = *e.page
	}
}

// dropUnconfirmedLocked drops older unconfirmed deliveries of a path if the latest delivery was a
// whole content, because they then do not matter. The caller holds r.mu.
func (r *reader) dropUnconfirmedLocked(key store.Path) {
	f := r.files[key]
	if f == nil || len(f.pieces) != 1 || f.pieces[0].First > 1 || f.pieces[0].Last < f.pieces[0].Total {
		return
	}
	for id, es := range r.waiting {
		kept := slices.DeleteFunc(es, func(e *entry) bool { return e.path == key && e.n < f.pieces[0].N })
		if len(kept) == 0 {
			delete(r.waiting, id)
			continue
		}
		r.waiting[id] = kept
	}
	r.order = slices.DeleteFunc(r.order, func(id string) bool { return r.waiting[id] == nil })
}

func (f *file) askedLocked(k span, a ask) {
	if len(f.asks) >= maxAsks {
		clear(f.asks)
	}
	f.asks[k] = a
}

// clockLocked returns the clock for the expiry of the reader's pieces. The caller holds r.mu.
func (r *reader) clockLocked(now int64, o Options) clock {
	return clock{now: now, delivered: r.delivered, held: r.held, unsure: r.unsure, o: o}
}

func (r *reader) pins(into map[store.Hash]struct{}, now int64, o Options) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.clockLocked(now, o)
	for _, f := range r.files {
		for i := range f.pieces {
			if f.pieces[i].Rendering != "" && !f.pieces[i].expired(c) {
				into[f.pieces[i].Hash] = struct{}{}
			}
		}
	}
	for _, es := range r.waiting {
		for _, e := range es {
			into[e.hash] = struct{}{}
		}
	}
}
