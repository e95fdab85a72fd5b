package readers

import (
	"strings"

	"cachebro/store"
	"cachebro/store/diff"
	"cachebro/store/tokens"
	"cachebro/store/wire"
)

// Limits of the lines and tokens that a client's own read tool shows at once. Text that replaces a
// false "unchanged" stays within them.
const (
	maxClientLines  = 2000
	maxClientTokens = 24_000
)

// rewrite decides whether to keep a client's own result, or to replace it by a sentence or by the
// changed lines.
func (c *chooser) rewrite() (decision, error) {
	w := *c.q.Rewrite
	if w.ClientUnchanged {
		return c.clientUnchanged()
	}
	v, err := c.view()
	if err != nil {
		return decision{}, err
	}
	first, last, tail, ok := v.match(w)
	if !ok {
		return c.notUnderstood(w), nil
	}
	c.first, c.last = first, last
	// The reader has seen that the file ends here only if the text includes the empty line that
	// clients show after a final newline (tail), or if there is no final newline.
	c.whole = first == 1 && last == c.meta.total && (tail || !v.newline)
	var own effect
	if last >= first || c.meta.total == 0 {
		own = c.fresh(first, last)
	}
	if c.trusted() && !c.askedTwice() {
		d, ok, err := c.unchangedRewrite()
		if !ok && err == nil {
			d, ok, err = c.changedSpan(v)
		}
		if ok || err != nil {
			d.clientTextEffect = own
			return d, err
		}
	}
	d := c.answer(wire.ReadKeep)
	d.FullTokens, err = c.fullTokens()
	if err != nil {
		return decision{}, err
	}
	d.Tokens, d.full = d.FullTokens, true
	d.effect = own
	return d, nil
}

// notUnderstood handles a text that matches no known version of the file. After such a text it is
// not certain any more which lines the reader has, so they are forgotten.
func (c *chooser) notUnderstood(w Rewrite) decision {
	d := decision{Answer: Answer{ReadAnswer: wire.ReadAnswer{Kind: wire.ReadKeep, TotalLines: c.meta.total}}, full: true}
	d.FullTokens = tokens.EstimateString(w.Text)
	d.Tokens = d.FullTokens
	d.effect.forget = true
	return d
}

// unchangedRewrite decides like the method unchanged, but words the answer for a client's own read.
func (c *chooser) unchangedRewrite() (decision, bool, error) {
	h, elsewhere, ok, err := c.heldAnywhere()
	if !ok || err != nil || c.last < c.first {
		return decision{}, false, err
	}
	full, err := c.fullTokens()
	if err != nil {
		return decision{}, false, err
	}
	d := c.answer(wire.ReadUnchanged)
	st := stub{path: c.q.Path, as: h.as, first: c.first, last: c.last, total: c.meta.total, elsewhere: elsewhere}
	d.Text = c.s.notRepeated(st, h.from)
	d.Start, d.NumLines = 0, 1
	d.Tokens = tokens.EstimateString(d.Text)
	return c.finishUnchanged(d, h, elsewhere, full)
}

// changedSpan sends changed lines with their line numbers, from 3 before the first change to 3
// after the last. It does so only if the reader holds the rest.
func (c *chooser) changedSpan(v *view) (decision, bool, error) {
	if !c.whole {
		return decision{}, false, nil
	}
	h, sc, err := c.base()
	if sc == nil || err != nil {
		return decision{}, false, err
	}
	first, last := spanOf(sc)
	if c.q.Rewrite.Rendering != store.RenderClaudeRead {
		// Clients strip blank lines from the end of shell output, so the span must not end in one.
		for v.blank(last, last) && last < v.total {
			last++
		}
	}
	if 2*(last-first+1) > c.meta.total || last < first {
		return decision{}, false, nil
	}
	d := c.answer(wire.ReadSpan)
	d.Text = string(v.slice(first, last))
	d.Start, d.NumLines = first, last-first+1
	if c.q.Rewrite.Rendering == store.RenderClaudeRead {
		if last < c.meta.total {
			d.Text = strings.TrimSuffix(d.Text, "\n")
		} else if v.newline {
			// A reader that sees the end of the file also sees its last newline.
			d.NumLines++
		}
	}
	d.Note = c.s.spanNote(c.q.Path, h, first, last, c.meta.total, len(sc.Old))
	d.FullTokens, err = c.fullTokens()
	if err != nil {
		return decision{}, false, err
	}
	d.Tokens = tokens.EstimateString(d.Text) + tokens.EstimateString(d.Note)
	if d.Tokens >= d.FullTokens || d.Text == "" {
		return decision{}, false, nil
	}
	d.effect = c.derived(h, 1, c.meta.total, true)
	return d, true, nil
}

// spanOf returns the range of new lines that contains every change and its context.
func spanOf(sc *diff.Script) (first, last int) {
	a, z := sc.Edits[0], sc.Edits[len(sc.Edits)-1]
	return max(1, a.NewFrom+1-diff.Context), min(len(sc.New), z.NewTo+diff.Context)
}

// clientUnchanged handles a client that answered "file unchanged" itself, judging by modification
// time. The answer is kept only if cachebro's record agrees.
func (c *chooser) clientUnchanged() (decision, error) {
	if c.meta.binary {
		return decision{Answer: Answer{ReadAnswer: wire.ReadAnswer{Kind: wire.ReadKeep, Binary: true}}}, nil
	}
	if err := c.setRange(c.q.Offset, c.q.Limit); err != nil {
		return decision{}, err
	}
	if c.q.Limit <= 0 && c.last-c.first+1 > maxClientLines {
		c.last, c.whole = c.first+maxClientLines-1, false
	}
	v, err := c.view()
	if err != nil {
		return decision{}, err
	}
	if c.trusted() && !c.askedTwice() {
		if h, ok := c.held(c.q.Hash, c.first, c.last); ok {
			d := c.answer(wire.ReadKeep)
			d.effect = effect{confirmed: h.hash, first: c.first, last: c.last}
			return d, nil
		}
		// Unlike in rewrite, unchangedRewrite is not tried. It can say that a range is unchanged,
		// but the client's answer was about the whole file.
		if d, ok, err := c.changedSpan(v); ok || err != nil {
			return d, err
		}
	}
	c.fit(v)
	d, err := c.full()
	if err != nil || c.q.Rewrite.Rendering != store.RenderClaudeRead {
		return d, err
	}
	if c.last < c.meta.total {
		d.Text = strings.TrimSuffix(d.Text, "\n")
	} else if v.newline {
		d.NumLines++
	}
	return d, nil
}

// fit shortens the range to the limits of a client's result.
func (c *chooser) fit(v *view) {
	sum := 0
	for i := c.first; i <= c.last; i++ {
		sum += tokens.Estimate(v.lines()[i-1])
		if sum > maxClientTokens && i > c.first {
			c.last, c.whole = i-1, false
			return
		}
	}
}
