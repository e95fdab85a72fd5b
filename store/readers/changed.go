package readers

import (
	"slices"
	"strings"

	"cachebro/store"
	"cachebro/store/diff"
	"cachebro/store/tokens"
	"cachebro/store/wire"
)

// maxRows is the largest number of diff lines in one answer.
const maxRows = 200

// compare returns the script from an earlier content to the current one, or nil if no diff can be
// sent.
func (c *chooser) compare(base store.Hash) (*diff.Script, error) {
	v, err := c.view()
	if err != nil {
		return nil, err
	}
	old := c.oldView(base)
	if old == nil {
		// The earlier content is pruned or damaged. Full text is sent, so this is no failure.
		return nil, nil
	}
	areText := old.valid && v.valid && !old.binary && !v.binary
	if !areText || old.rendering != v.rendering {
		return nil, nil
	}
	sc := diff.CompareLines(old.lines(), v.lines())
	if len(sc.Edits) == 0 {
		// Different bytes may render to the same text. A diff would then be empty.
		return nil, nil
	}
	if c.meta.units == 0 && old.units > 0 {
		c.measureChange(old, v, sc)
	}
	return sc, nil
}

// measureChange measures the current content by an earlier one of known size, unless much has
// changed. It measures only the lines from the first edit to the last, and those around them in
// which a token may begin before the line.
func (c *chooser) measureChange(old, v *view, sc *diff.Script) {
	from, to := sc.Edits[0].OldFrom, sc.Edits[len(sc.Edits)-1].OldTo
	for from > 0 {
		from--
		if tokens.BeginAt(sc.Old[from]) {
			break
		}
	}
	for to < len(sc.Old) && !tokens.BeginAt(sc.Old[to]) {
		to++
	}
	if to-from <= len(sc.Old)/2 {
		newTo := to + len(sc.New) - len(sc.Old)
		c.measured(old.units - tokens.Units(old.slice(from+1, to)) + tokens.Units(v.slice(from+1, newTo)))
	}
}

// base finds an earlier content that the reader holds as a whole, and returns the script from it to
// the current content.
func (c *chooser) base() (proof, *diff.Script, error) {
	for _, b := range bases(c.snap.pieces, c.q.Hash) {
		total, ok := totalOf(c.snap.pieces, b, c.meta.rendering)
		if !ok {
			continue
		}
		h, ok := c.held(b, 1, total)
		if !ok {
			continue
		}
		sc, err := c.compare(b)
		return h, sc, err
	}
	return proof{}, nil, nil
}

// changed answers with a diff against a content that the reader holds as a whole.
func (c *chooser) changed() (decision, bool, error) {
	if !c.whole {
		return decision{}, false, nil
	}
	h, sc, err := c.base()
	if sc == nil || err != nil {
		return decision{}, false, err
	}
	label := diffLabel(c.q.Path, h, sc.Added(), sc.Removed(), len(sc.Old), len(sc.New), c.q.Listing)
	if c.q.Listing {
		return c.listing(h, sc, label)
	}
	rows := sc.Rows(diff.Context)
	if c.q.Stub != nil && len(rows) > maxRows {
		return decision{}, false, nil
	}
	if len(rows) > maxRows { // all pages together must be shorter than the text; rows checks a single page
		full, err := c.fullTokens()
		if err != nil || tokens.EstimateString(label)+tokens.EstimateString(joined(rows)) >= full {
			return decision{}, false, err
		}
	}
	return c.rows(h, sc, rows, 0, label)
}

// nextPage continues a truncated diff if its old and new content are still the same.
func (c *chooser) nextPage() (decision, bool, error) {
	p := c.snap.page
	if !c.whole || p.target != c.q.Hash {
		return decision{}, false, nil
	}
	total, ok := totalOf(c.snap.pieces, p.base, c.meta.rendering)
	if !ok {
		return decision{}, false, nil
	}
	h, ok := c.held(p.base, 1, total)
	if !ok {
		return decision{}, false, nil
	}
	sc, err := c.compare(p.base)
	if sc == nil || err != nil {
		return decision{}, false, err
	}
	rows := sc.Rows(diff.Context)
	from := c.q.DiffOffset
	if from >= len(rows) {
		return decision{}, false, nil
	}
	label := pageLabel(from+1, min(from+maxRows, len(rows)), len(rows), len(sc.Old), len(sc.New))
	return c.rows(h, sc, rows, from, label)
}

// rows sends one page of a diff. Its lines count as shown only if all earlier pages were sent.
func (c *chooser) rows(h proof, sc *diff.Script, rows []diff.Row, from int, label string) (decision, bool, error) {
	to := min(len(rows), from+maxRows)
	d := c.answer(wire.ReadDiff)
	d.Label, d.Text = label, joined(rows[from:to])
	if to < len(rows) {
		d.Text += truncated(c.q.Path, to, sc.Added()+sc.Removed())
	}
	d.Tokens = tokens.EstimateString(d.Label) + tokens.EstimateString(d.Text)
	var err error
	d.FullTokens, err = c.fullTokens()
	if err != nil || d.Tokens >= d.FullTokens {
		return decision{}, false, err
	}
	seen := 0
	if c.snap.page.base == h.hash && c.snap.page.target == c.q.Hash {
		seen = c.snap.page.rows
	}
	// A page after a gap proves no lines. It only tells the reader that the file has changed.
	known := 0
	if from <= seen {
		known = rows[to-1].Known
	}
	d.effect = c.derived(h, 1, known, true)
	if from <= seen {
		d.effect.page = &page{base: h.hash, target: c.q.Hash, rows: max(seen, to)}
	}
	return d, true, nil
}

// listing sends only the added and removed items of a directory listing.
func (c *chooser) listing(h proof, sc *diff.Script, label string) (decision, bool, error) {
	rows := slices.DeleteFunc(sc.Rows(0), func(r diff.Row) bool { return r.Text[0] == '@' || r.Text[0] == '\\' })
	d := c.answer(wire.ReadDiff)
	d.Label, d.Text = label, joined(rows)
	d.Tokens = tokens.EstimateString(d.Label) + tokens.EstimateString(d.Text)
	var err error
	d.FullTokens, err = c.fullTokens()
	if err != nil || d.Tokens >= d.FullTokens || len(rows) > maxRows {
		return decision{}, false, err
	}
	d.effect = c.derived(h, 1, c.meta.total, true)
	return d, true, nil
}

func joined(rows []diff.Row) string {
	var b strings.Builder
	for _, r := range rows {
		b.Write(r.Text)
	}
	return b.String()
}
