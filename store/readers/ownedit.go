package readers

import (
	"bytes"
	"context"
	"slices"
	"sort"

	"cachebro/store"
	"cachebro/store/diff"
	"cachebro/store/leaf/text"
)

// Edit describes what an agent did to a file through an edit tool.
type Edit struct {
	Reader        store.Reader
	Known         bool
	Path          store.Path
	Before, After store.Hash
	Content       func() ([]byte, error) // fetches the present content of the file
	// Old was replaced by New, everywhere if All is set, otherwise once. If Whole is set, New
	// became the whole content.
	Old, New   string
	All, Whole bool
	// Pending means that the edit counts only after a Commit with a result for ToolUse.
	Pending bool
	ToolUse string
	Tool    string
}

// OwnEdit records what an agent knows after its own edit. It knows the lines that it held before.
// It also knows the text that it supplied, if it held the lines around that text. A reader of ten
// lines that edits one of them has still not seen the rest of the file.
func (s *Tracker) OwnEdit(ctx context.Context, e Edit) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !e.Known {
		return nil
	}
	r := s.reader(e.Reader, true)
	if r == nil {
		return nil
	}
	after, err := e.Content()
	if err != nil {
		return err
	}
	q := Request{Reader: e.Reader, Path: e.Path, Hash: e.After, ToolUse: e.ToolUse, Tool: e.Tool, Pending: e.Pending}
	snap := r.takeSnapshot(q, e.Path, s.now(), s.o)
	v := render(after, store.RenderRaw)
	c := chooser{s: s, q: q, meta: v.meta}
	var eff effect
	if e.Whole {
		eff = effect{forget: true}
		if string(after) == e.New && v.valid && !v.binary {
			eff = c.fresh(1, v.total)
		}
	} else {
		eff = s.edited(e, &c, snap, after, v)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.fileLocked(e.Path, s.o.MaxFiles)
	if r.epoch != snap.epoch {
		return nil
	}
	if f.gen != snap.gen && !eff.fresh {
		eff = effect{forget: true}
	}
	if !e.Pending {
		r.noteLocked(e.Path, eff, s.now(), s.o)
	} else if e.ToolUse != "" {
		r.waitLocked(e.ToolUse, &entry{
			path: e.Path, shown: e.Path, hash: e.After, n: r.n, tool: e.Tool,
			forms: []form{{any: true, effect: eff}},
		})
	}
	return nil
}

// edited derives the known lines of the new content from those of the old one.
func (s *Tracker) edited(e Edit, c *chooser, snap snapshot, after []byte, v *view) effect {
	// An agent that knows no line still knows that the content has changed.
	changeOnly := effect{pieces: []piece{c.piece(1, 0)}, base: e.Before}
	if v.total == 0 {
		return effect{forget: true}
	}
	before, err := s.contents.Content(e.Before)
	if err != nil || snap.doubt || e.Old == "" {
		return effect{forget: true}
	}
	spots := places(before, []byte(e.Old), e.All)
	if !bytes.Equal(replaced(before, spots, len(e.Old), e.New), after) {
		return effect{forget: true}
	}
	h, held := heldLines(snap, e.Before, e.After, render(before, store.RenderRaw))
	if h.hash != e.Before {
		return effect{forget: true}
	}
	for _, iv := range carry(before, spots, e, held) {
		if iv.First == 1 && iv.Last == v.total && (slices.Contains(held[1:], false) || len(bases(snap.pieces, e.Before)) > 0) {
			// The reader may know every line, but not that the file ends there.
			return effect{forget: true}
		}
		p := c.piece(iv.First, iv.Last, h.deps...)
		p.At, p.Mark = h.at, h.mark
		p.Rests, p.From.Changes = h.from, true
		changeOnly.pieces = append(changeOnly.pieces, p)
	}
	return changeOnly
}

// places returns the offsets of old in b: all of them, or only the first.
func places(b, old []byte, all bool) []int {
	var out []int
	for from := 0; ; {
		i := bytes.Index(b[from:], old)
		if i < 0 {
			return out
		}
		out = append(out, from+i)
		from += i + len(old)
		if !all {
			return out
		}
	}
}

func replaced(b []byte, spots []int, n int, with string) []byte {
	out := make([]byte, 0, len(b)+len(spots)*(len(with)-n)+n)
	at := 0
	for _, s := range spots {
		out = append(append(out, b[at:s]...), with...)
		at = s + n
	}
	return append(out, b[at:]...)
}

// heldLines marks which lines of a content the reader holds.
func heldLines(snap snapshot, h, current store.Hash, v *view) (proof, []bool) {
	held := make([]bool, v.total+1)
	sum := proof{}
	for i := range snap.pieces {
		p := &snap.pieces[i]
		if p.Hash != h || p.Last < p.First {
			continue
		}
		part, ok := holds(snap.pieces, snap.clock, h, current, v.rendering, p.First, p.Last)
		if !ok {
			continue
		}
		for l := p.First; l <= p.Last && l <= v.total; l++ {
			held[l] = true
		}
		if sum.hash != h {
			sum = part
			continue
		}
		sum.at, sum.mark = min(sum.at, part.at), min(sum.mark, part.mark)
		sum.deps = addDeps(sum.deps, part.deps...)
		sum.from = addCall(sum.from, part.from...)
	}
	return sum, held
}

// carry walks through the old lines and returns the known lines of the new content. If an edit
// changed the number of lines in a part that the reader does not hold, the reader cannot know any
// later line number. Nothing after the edit is then known.
func carry(before []byte, spots []int, e Edit, held []bool) []store.Interval {
	lines := diff.Lines(before)
	ends := make([]int, len(lines)) // byte offset after each line
	at := 0
	for i, l := range lines {
		at += len(l)
		ends[i] = at
	}
	lineOf := func(off int) int { return sort.SearchInts(ends, off+1) } // 0-based
	var out []store.Interval
	add := func(first, last int) {
		if n := len(out); n > 0 && out[n-1].Last+1 == first {
			out[n-1].Last = last
		} else if last >= first {
			out = append(out, store.Interval{First: first, Last: last})
		}
	}
	old, fresh := 0, 0 // number of lines passed in the old and the new content
	for i := 0; i <= len(spots); {
		stop := len(lines)
		if i < len(spots) {
			stop = lineOf(spots[i])
		}
		for ; old < stop; old++ {
			fresh++
			if held[old+1] {
				add(fresh, fresh)
			}
		}
		if i == len(spots) {
			break
		}
		// Edits that share lines are treated as one change of whole lines.
		first, j := old, i
		last := first
		for ; j < len(spots) && lineOf(spots[j]) <= last; j++ {
			last = min(lineOf(spots[j]+len(e.Old)), len(lines)-1)
		}
		from := 0
		if first > 0 {
			from = ends[first-1]
		}
		rel := make([]int, 0, j-i)
		for _, s := range spots[i:j] {
			rel = append(rel, s-from)
		}
		n := text.Lines(replaced(before[from:ends[last]], rel, len(e.Old), e.New))
		known := true
		for l := first; l <= last; l++ {
			known = known && held[l+1]
		}
		if known && n > 0 {
			add(fresh+1, fresh+n)
		}
		if !known && n != last-first+1 {
			return out
		}
		fresh += n
		old, i = last+1, j
	}
	return out
}
