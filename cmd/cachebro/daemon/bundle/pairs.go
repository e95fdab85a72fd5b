package bundle

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"cachebro/store/leaf/cache"

	"github.com/fxamacker/cbor/v2"
)

// Bounds on the recorded reads and writes.
const (
	pairWithin = int64(15 * 60 * 1e9) // ns between the read and the write
	maxActors  = 128                  // the least recently active ones are dropped
	maxRecent  = 24                   // reads and writes per actor
	maxPairs   = 32                   // per written file; the rarest are dropped
	maxRows    = 20_000               // written files
)

// Pairs counts how often an actor read one file before writing another. An actor is a session, or a
// process and its children. Reads are often reported later than the write that followed them, so
// both are matched by their times.
type Pairs struct {
	mu     sync.Mutex // guards all below
	actors *cache.Cache[string, *recent]
	wrote  map[string]map[string]*Pair // by the written file, then the read one
	read   map[string]map[string]bool  // by the read file, then the written one
	dirty  map[string]bool             // rows that changed since the last call of Changed
}

// Pair counts how often one file was read before another one was written.
type Pair struct {
	N    int   `cbor:"1,keyasint"`
	Last int64 `cbor:"2,keyasint"` // ns, time of the last write
}

type recent struct {
	reads  []moment
	writes []moment
}

// moment is one read or write of a file.
type moment struct {
	path string
	t    int64           // ns
	met  map[string]bool // for a read: the written files with which it was counted
}

// NewPairs restores the pairs from rows that Changed returned.
func NewPairs(rows map[string][]byte) *Pairs {
	p := &Pairs{actors: cache.New[string, *recent](2*maxActors, nil), wrote: map[string]map[string]*Pair{}, read: map[string]map[string]bool{}, dirty: map[string]bool{}}
	for path, raw := range rows {
		var row map[string]*Pair
		if cbor.Unmarshal(raw, &row) != nil {
			continue
		}
		for from, pair := range row {
			if pair != nil {
				p.setLocked(path, from, *pair)
			}
		}
	}
	clear(p.dirty)
	return p
}

// Read notes that actor read path at t (ns).
func (p *Pairs) Read(actor string, t int64, path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.actors.GetOr(actor, func() *recent { return &recent{} })
	if n := len(a.reads); n > 0 && a.reads[n-1].path == path && len(a.reads[n-1].met) == 0 && a.reads[n-1].t <= t {
		return // the file is read in parts
	}
	m := moment{path: path, t: t, met: map[string]bool{}}
	for _, w := range a.writes {
		p.matchLocked(&m, w)
	}
	a.reads = lastOf(append(a.reads, m))
}

// Wrote notes that actor wrote path at t (ns).
func (p *Pairs) Wrote(actor string, t int64, path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.actors.GetOr(actor, func() *recent { return &recent{} })
	w := moment{path: path, t: t}
	for i := range a.reads {
		p.matchLocked(&a.reads[i], w)
	}
	a.writes = lastOf(append(a.writes, w))
}

func lastOf(ms []moment) []moment {
	if len(ms) > maxRecent {
		ms = slices.Delete(ms, 0, len(ms)-maxRecent)
	}
	return ms
}

// matchLocked counts a read and a write as a pair, once, if the read came first.
func (p *Pairs) matchLocked(r *moment, w moment) {
	if r.path == w.path || r.t >= w.t || w.t-r.t > pairWithin || r.met[w.path] {
		return
	}
	r.met[w.path] = true
	pair := Pair{N: 1, Last: w.t}
	if old := p.wrote[w.path][r.path]; old != nil {
		pair.N += old.N
		pair.Last = max(pair.Last, old.Last)
	}
	p.setLocked(w.path, r.path, pair)
}

func (p *Pairs) setLocked(wrote, read string, pair Pair) {
	row := p.wrote[wrote]
	if row == nil {
		if len(p.wrote) >= maxRows {
			return
		}
		row = map[string]*Pair{}
		p.wrote[wrote] = row
	}
	if row[read] == nil && len(row) >= maxPairs {
		p.dropLocked(wrote, slices.MinFunc(slices.Collect(maps.Keys(row)), func(x, y string) int {
			return cmp.Or(cmp.Compare(row[x].N, row[y].N), cmp.Compare(row[x].Last, row[y].Last), cmp.Compare(x, y))
		}))
		row = p.wrote[wrote]
	}
	row[read] = &pair
	if p.read[read] == nil {
		p.read[read] = map[string]bool{}
	}
	p.read[read][wrote] = true
	p.dirty[wrote] = true
}

func (p *Pairs) dropLocked(wrote, read string) {
	delete(p.wrote[wrote], read)
	delete(p.read[read], wrote)
	if len(p.read[read]) == 0 {
		delete(p.read, read)
	}
	p.dirty[wrote] = true
}

// Renamed moves the pairs of a file to its new name. Existing pairs of the new name remain,
// because a save through a temporary file is a rename too.
func (p *Pairs) Renamed(from, to string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	move := func(wrote, read, wrote2, read2 string) {
		pair := *p.wrote[wrote][read]
		p.dropLocked(wrote, read)
		if wrote2 == read2 {
			return
		}
		if old := p.wrote[wrote2][read2]; old != nil {
			pair = Pair{N: pair.N + old.N, Last: max(pair.Last, old.Last)}
		}
		p.setLocked(wrote2, read2, pair)
	}
	for _, read := range slices.Sorted(maps.Keys(p.wrote[from])) {
		move(from, read, to, read)
	}
	for _, wrote := range slices.Sorted(maps.Keys(p.read[from])) {
		move(wrote, from, wrote, to)
	}
	if len(p.wrote[from]) == 0 {
		delete(p.wrote, from)
	}
}

// RenamedBelow moves the pairs of all files below a directory that was renamed.
func (p *Pairs) RenamedBelow(from, to string) {
	p.mu.Lock()
	found := map[string]bool{}
	for _, paths := range []iter.Seq[string]{maps.Keys(p.wrote), maps.Keys(p.read)} {
		for path := range paths {
			if strings.HasPrefix(path, from+"/") {
				found[path] = true
			}
		}
	}
	p.mu.Unlock()
	for _, path := range slices.Sorted(maps.Keys(found)) {
		p.Renamed(path, to+path[len(from):])
	}
}

// Changed returns the rows that changed since the last call, nil for a row that is empty now.
func (p *Pairs) Changed() map[string][]byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.dirty) == 0 {
		return nil
	}
	out := map[string][]byte{}
	for path := range p.dirty {
		out[path] = nil
		if row := p.wrote[path]; len(row) > 0 {
			if raw, err := cbor.Marshal(row); err == nil {
				out[path] = raw
			}
		}
	}
	clear(p.dirty)
	return out
}

// each calls f with each pair of a file. If before is true, the other file was read before this one
// was written. Otherwise the other file was written after this one was read.
func (p *Pairs) each(path string, f func(other string, n int, before bool)) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for read, pair := range p.wrote[path] {
		f(read, pair.N, true)
	}
	for wrote := range p.read[path] {
		f(wrote, p.wrote[wrote][path].N, false)
	}
}
