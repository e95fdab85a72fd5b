package readers

import (
	"fmt"
	"time"

	"cachebro/store"
	"cachebro/store/tokens"
	"cachebro/store/wire"
)

// chooser makes one decision.
type chooser struct {
	s     *Tracker
	q     Request
	snap  snapshot
	force bool

	meta        meta
	loaded      *view
	first, last int // the requested lines
	whole       bool
}

func (c *chooser) choose() (decision, error) {
	if c.q.Content == nil {
		return decision{}, fmt.Errorf("read %q: no content given", c.q.Path)
	}
	m, ok := c.s.metas.Get(metaKey{c.q.Hash, c.rendering()})
	if !ok {
		v, err := c.view()
		if err != nil {
			return decision{}, err
		}
		m = v.meta
	}
	c.meta = m
	if c.q.Rewrite != nil {
		return c.rewrite()
	}
	if m.binary {
		return decision{Answer: Answer{ReadAnswer: wire.ReadAnswer{Kind: wire.ReadFull, Binary: true, TotalLines: m.total}}}, nil
	}
	if err := c.setRange(c.q.Offset, c.q.Limit); err != nil {
		return decision{}, err
	}
	return c.read()
}

// view returns the view of the current content, which it fetches only once.
func (c *chooser) view() (*view, error) {
	if c.loaded != nil {
		return c.loaded, nil
	}
	b, err := c.q.Content()
	if err != nil {
		return nil, err
	}
	c.loaded = c.viewOf(c.q.Hash, b)
	return c.loaded, nil
}

// viewOf returns the view of a content with this hash.
func (c *chooser) viewOf(h store.Hash, content []byte) *view {
	k := metaKey{h, c.rendering()}
	m, ok := c.s.metas.Get(k)
	if ok && m.plain {
		return &view{meta: m, text: content}
	}
	v := render(content, k.rendering)
	if ok {
		v.meta = m
	} else {
		c.s.metas.Put(k, v.meta)
	}
	return v
}

// oldView returns the view of an earlier content, or nil if that content is not available.
func (c *chooser) oldView(h store.Hash) *view {
	b, err := c.s.contents.Content(h)
	if err != nil {
		return nil
	}
	return c.viewOf(h, b)
}

// rendering returns the rendering of the reader's tool.
func (c *chooser) rendering() store.Rendering {
	if c.q.Rewrite != nil {
		return c.q.Rewrite.Rendering
	}
	return store.RenderRaw
}

func (c *chooser) setRange(offset, limit int) error {
	total := c.meta.total
	c.first, c.last = max(1, offset), total
	if c.first > max(1, total) {
		return fmt.Errorf("%w: line %d of %d", ErrBeyondEnd, c.first, total)
	}
	if limit > 0 {
		c.last = min(total, c.first+limit-1)
	}
	c.whole = c.first == 1 && c.last == total
	return nil
}

func (c *chooser) span() span {
	if c.whole {
		return span{1, 0}
	}
	return span{c.first, c.last}
}

// read decides about a request that is not a Rewrite, so that cachebro delivers the text.
func (c *chooser) read() (decision, error) {
	if c.trusted() {
		if c.q.DiffOffset > 0 {
			if d, ok, err := c.nextPage(); ok || err != nil {
				return d, err
			}
		} else if !c.askedTwice() {
			if d, ok, err := c.unchanged(); ok || err != nil {
				return d, err
			}
			if d, ok, err := c.changed(); ok || err != nil {
				return d, err
			}
		}
	}
	return c.full()
}

// trusted reports whether a short answer may rely on the reader's state.
func (c *chooser) trusted() bool { return !c.force && !c.snap.doubt && len(c.snap.pieces) > 0 }

// askedTwice reports whether the last answer for this range of this content left out the text.
func (c *chooser) askedTwice() bool {
	a, ok := c.snap.asks[c.span()]
	return ok && a.hash == c.q.Hash && !a.full
}

func (c *chooser) fullTokens() (int, error) {
	if c.whole {
		if c.meta.units == 0 && c.meta.total > 0 {
			v, err := c.view()
			if err != nil {
				return 0, err
			}
			c.measured(tokens.Units(v.text))
		}
		return tokens.Rounded(c.meta.units), nil
	}
	if a, ok := c.snap.asks[c.span()]; ok && a.hash == c.q.Hash {
		return a.tokens, nil
	}
	v, err := c.view()
	if err != nil {
		return 0, err
	}
	return tokens.Estimate(v.slice(c.first, c.last)), nil
}

// measured records the size of the current content.
func (c *chooser) measured(units int) {
	c.meta.units = units
	c.s.metas.Put(metaKey{c.q.Hash, c.rendering()}, c.meta)
}

func (c *chooser) answer(kind string) decision {
	return decision{
		Answer: Answer{ReadAnswer: wire.ReadAnswer{Kind: kind, Start: c.first, NumLines: c.last - c.first + 1, TotalLines: c.meta.total}},
		span:   c.span(),
	}
}

func (c *chooser) full() (decision, error) {
	v, err := c.view()
	if err != nil {
		return decision{}, err
	}
	d := c.answer(wire.ReadFull)
	d.Text = string(v.slice(c.first, c.last))
	d.FullTokens, err = c.fullTokens()
	if err != nil {
		return decision{}, err
	}
	d.Tokens, d.full = d.FullTokens, true
	d.effect = c.fresh(c.first, c.last)
	return d, nil
}

// piece returns a piece for lines of the current content.
func (c *chooser) piece(first, last int, deps ...string) piece {
	p := piece{
		Hash: c.q.Hash, Rendering: c.meta.rendering, Plain: c.meta.plain,
		First: first, Last: last, Total: c.meta.total, From: call{Tool: c.q.Tool},
	}
	// Without a tool use, the piece depends on "", which is in no transcript. A transcript check
	// then never confirms it.
	p.Deps = addDeps(addDeps(p.Deps, deps...), c.q.ToolUse)
	return p
}

// fresh returns the effect of delivering the text of lines first to last.
func (c *chooser) fresh(first, last int) effect {
	return effect{pieces: []piece{c.piece(first, last)}, fresh: true}
}

// derived returns the effect of an answer from which the reader can derive the lines. The reader
// derives them from the text that it holds and from the changes, if they are sent. The lines are as
// old as the held text.
func (c *chooser) derived(h proof, first, last int, changes bool) effect {
	p := c.piece(first, last, h.deps...)
	p.At, p.Mark = h.at, h.mark
	p.Rests, p.From.Changes = h.from, changes
	return effect{pieces: []piece{p}, base: h.hash}
}

// unchanged answers that the reader already holds the requested lines. It may hold them from
// another content with the same lines in the same place.
func (c *chooser) unchanged() (decision, bool, error) {
	h, elsewhere, ok, err := c.heldAnywhere()
	if !ok || err != nil {
		return decision{}, false, err
	}
	full, err := c.fullTokens()
	if err != nil {
		return decision{}, false, err
	}
	d := c.answer(wire.ReadUnchanged)
	st := stub{path: c.q.Path, as: h.as, first: c.first, last: c.last, total: c.meta.total, elsewhere: elsewhere, listing: c.q.Listing}
	d.Label, d.Tokens = st.labelled(full)
	if c.q.Stub != nil {
		d.Label = c.q.Stub(time.Unix(0, h.at).In(c.s.o.Location))
		d.Tokens = tokens.EstimateString(d.Label)
	}
	return c.finishUnchanged(d, h, elsewhere, full)
}

// finishUnchanged completes d, an answer that the reader already holds the requested lines, as h
// proves. It returns false if the answer is not shorter than the text. full is the text's number of
// tokens.
func (c *chooser) finishUnchanged(d decision, h proof, elsewhere bool, full int) (decision, bool, error) {
	if d.Tokens >= full {
		return decision{}, false, nil
	}
	d.FullTokens = full
	if elsewhere {
		d.effect = c.derived(h, c.first, c.last, false)
	}
	d.effect.confirmed = h.hash
	d.effect.first, d.effect.last = c.first, c.last
	return d, true, nil
}

func (c *chooser) held(h store.Hash, first, last int) (proof, bool) {
	return holds(c.snap.pieces, c.snap.clock, h, c.q.Hash, c.meta.rendering, first, last)
}

// heldAnywhere finds the requested lines in what the reader holds of the current content. For a
// part of the file, it also looks in other contents.
func (c *chooser) heldAnywhere() (h proof, elsewhere, ok bool, err error) {
	h, ok = c.held(c.q.Hash, c.first, c.last)
	if !ok && !c.whole {
		elsewhere = true
		h, ok, err = c.sameElsewhere()
	}
	return h, elsewhere, ok, err
}

// sameElsewhere finds another content in which the reader holds the requested lines. The changes
// from it to the current content must touch neither the lines nor their numbers.
func (c *chooser) sameElsewhere() (proof, bool, error) {
	for _, b := range bases(c.snap.pieces, c.q.Hash) {
		h, ok := c.held(b, c.first, c.last)
		if !ok {
			continue
		}
		sc, err := c.compare(b)
		if err != nil {
			return proof{}, false, err
		}
		if sc != nil && sc.Unmoved(c.first, c.last) {
			return h, true, nil
		}
	}
	return c.sameInAllContents()
}
