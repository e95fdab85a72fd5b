package readers

import (
	"math"
	"slices"
	"sort"

	"cachebro/store"
)

// piece is a run of lines of one content that a reader was shown. Pieces and lists of pieces are
// immutable, so a snapshot needs no copy.
type piece struct {
	Hash      store.Hash      `cbor:"1,keyasint"`
	Rendering store.Rendering `cbor:"2,keyasint"`
	Plain     bool            `cbor:"3,keyasint"` // every rendering of this content is the content itself
	// First and Last are lines, 1-based and inclusive. 1 and 0 mean no line. The file is then
	// empty, or the reader knows that the content existed but none of its text.
	First int        `cbor:"4,keyasint"`
	Last  int        `cbor:"5,keyasint"`
	Total int        `cbor:"6,keyasint"`  // number of lines of the whole content
	N     uint64     `cbor:"7,keyasint"`  // position in the order of the reader's deliveries
	At    int64      `cbor:"8,keyasint"`  // when the text was delivered, ns
	Used  int64      `cbor:"9,keyasint"`  // when the text was last delivered or confirmed, ns
	Mark  int64      `cbor:"10,keyasint"` // tokens delivered to the reader before the text
	Deps  []string   `cbor:"11,keyasint,omitempty"`
	As    store.Path `cbor:"12,keyasint,omitempty"` // the name under which the text was shown, if different
	// From is the call that delivered the piece. State saved by older versions lacks it.
	From call `cbor:"13,keyasint,omitempty"`
	// Rests lists the calls that delivered the text, if From did not, or delivered only changes.
	Rests []call `cbor:"14,keyasint,omitempty"`
}

// calls returns the calls from which the reader knows the piece's text.
func (p *piece) calls() []call {
	switch {
	case len(p.Rests) == 0:
		return []call{p.From}
	case p.From.Changes:
		return addCall(p.Rests, p.From)
	}
	return p.Rests
}

// maxPieces limits the pieces per file. Dropping the oldest is safe, because later deliveries
// overrule them.
const maxPieces = 64

// clock holds the values against which expiry is measured.
type clock struct {
	now       int64 // ns
	delivered int64 // tokens
	held      int64 // see reader.held
	unsure    int64
	o         Options
}

func (p *piece) expired(c clock) bool {
	return c.now-p.Used >= int64(c.o.IdleExpiry) || p.outgrown(c)
}

// outgrown reports whether the client may have silently dropped the text, because many tokens were
// delivered after it. It returns false if a later event showed that the context still holds the
// text.
func (p *piece) outgrown(c clock) bool {
	since := p.Mark
	if p.Mark >= c.unsure {
		since = max(since, c.held)
	}
	return c.delivered-since > c.o.TokenExpiry
}

// unknown returns a piece for a delivery that cannot be interpreted. It proves nothing and
// invalidates all earlier deliveries. Even the length of the file is unknown.
func unknown() piece { return piece{First: 1, Last: math.MaxInt} }

func (p *piece) usable(r store.Rendering) bool { return p.Plain || p.Rendering == r }

// proof shows that a reader holds some lines of a content.
type proof struct {
	hash  store.Hash
	total int
	n     uint64 // position of the oldest part
	last  uint64 // position of the newest part
	at    int64
	mark  int64
	deps  []string
	as    store.Path
	from  []call // the calls that delivered the lines, earliest first
}

// holds looks for unexpired pieces of one content that cover lines first to last. For an empty file
// any piece is enough. It also checks that the reader has not learned of a content other than h and
// current since.
func holds(ps []piece, c clock, h, current store.Hash, r store.Rendering, first, last int) (proof, bool) {
	var cover []*piece
	for i := range ps {
		p := &ps[i]
		overlaps := last < first || p.First <= last && p.Last >= first
		if p.Hash == h && p.usable(r) && !p.expired(c) && overlaps {
			cover = append(cover, p)
		}
	}
	if len(cover) == 0 {
		return proof{}, false
	}
	sort.Slice(cover, func(i, j int) bool { return cover[i].First < cover[j].First })
	out := proof{hash: h, total: cover[0].Total, n: cover[0].N, at: cover[0].At, mark: cover[0].Mark}
	next := first
	for _, p := range cover {
		if p.First > next && last >= first {
			return proof{}, false
		}
		next = max(next, p.Last+1)
		out.n, out.last = min(out.n, p.N), max(out.last, p.N)
		out.at, out.mark = min(out.at, p.At), min(out.mark, p.Mark)
		out.deps = addDeps(out.deps, p.Deps...)
		if p.As != "" {
			out.as = p.As
		}
		out.from = addCall(out.from, p.calls()...)
	}
	if next <= last {
		return proof{}, false
	}
	whole := first <= 1 && last >= out.total
	for i := range ps {
		p := &ps[i]
		if p.Hash == h || p.Hash == current {
			continue
		}
		// Either the reader learned of this content later, or this content is longer and the reader
		// did not learn that its end is gone.
		if p.N > out.n || whole && p.Last > last {
			return proof{}, false
		}
	}
	return out, true
}

func addDeps(deps []string, more ...string) []string {
	for _, d := range more {
		if !slices.Contains(deps, d) {
			deps = append(slices.Clip(deps), d)
		}
	}
	return deps
}

// bases lists the other contents that the reader learned of, latest first.
func bases(ps []piece, current store.Hash) []store.Hash {
	sorted := slices.Clone(ps)
	sort.Slice(sorted, func(i, j int) bool { return sorted[i].N > sorted[j].N })
	var out []store.Hash
	for _, p := range sorted {
		if p.Hash != current && !slices.Contains(out, p.Hash) {
			out = append(out, p.Hash)
		}
	}
	return out
}

// totalOf returns the number of lines of a content. It returns false if there is no piece of the
// content.
func totalOf(ps []piece, h store.Hash, r store.Rendering) (int, bool) {
	for i := range ps {
		if ps[i].Hash == h && ps[i].usable(r) {
			return ps[i].Total, true
		}
	}
	return 0, false
}

// with adds a piece, which replaces the same lines of the same content. A piece of the whole
// content replaces all pieces.
func with(ps []piece, p piece) []piece {
	out := make([]piece, 0, len(ps)+2)
	for _, q := range ps {
		same := q.Hash == p.Hash && q.Rendering == p.Rendering
		if same && q.Last < q.First {
			continue
		}
		if !same || q.Last < p.First || q.First > p.Last {
			out = append(out, q)
			continue
		}
		if q.First < p.First {
			left := q
			left.Last = p.First - 1
			out = append(out, left)
		}
		if q.Last > p.Last {
			right := q
			right.First = p.Last + 1
			out = append(out, right)
		}
	}
	out = append(out, p)
	if p.First <= 1 && p.Last >= p.Total {
		return []piece{p}
	}
	if len(out) > maxPieces {
		sort.Slice(out, func(i, j int) bool { return out[i].N < out[j].N })
		out = slices.Clone(out[len(out)-maxPieces:])
	}
	return out
}
