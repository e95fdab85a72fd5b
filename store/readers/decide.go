package readers

import (
	"context"

	"cachebro/store"
	"cachebro/store/wire"
)

// effect describes what a delivery adds to a reader's knowledge.
type effect struct {
	pieces      []piece    // lines of one content that the reader now knows
	fresh       bool       // the delivery contains the text of the lines
	base        store.Hash // the content that the lines are derived from, if not fresh
	forget      bool       // the reader received something that cannot be interpreted
	confirmed   store.Hash // the delivery said that lines first to last of this content are unchanged
	first, last int
	page        *page
}

// without returns the effect if the last lines of the text were not delivered.
func (e effect) without(lines int) effect {
	if lines == 0 || len(e.pieces) == 0 {
		return e
	}
	if !e.fresh || len(e.pieces) > 1 {
		return effect{forget: true} // a change may be among the missing lines
	}
	p := e.pieces[0]
	p.Last -= lines
	if p.Last < p.First {
		p.First, p.Last = 1, 0
	}
	e.pieces = []piece{p}
	return e
}

// decision is an answer together with its effect.
type decision struct {
	Answer
	span             span
	effect           effect
	clientTextEffect effect // for a Rewrite: the effect of delivering the client's own text instead
	full             bool   // the answer contains the text itself
}

// Decide determines the answer to a read of the file's current content. It records the answer as
// delivered or as pending (Request.Pending). It may be called concurrently. No lock is held while
// contents are fetched and compared.
func (s *Tracker) Decide(ctx context.Context, q Request) (Answer, error) {
	r := s.known(q)
	if r == nil {
		return s.decideUnknown(q)
	}
	if a, ok := r.decided(q); ok {
		return a, nil
	}
	key := q.key()
	// Repeat the decision if the reader received something between snapshot and record.
	for attempt := 0; ; attempt++ {
		if err := ctx.Err(); err != nil {
			return Answer{}, err
		}
		snap := r.takeSnapshot(q, key, s.now(), s.o)
		c := chooser{s: s, q: q, snap: snap, force: q.Force || attempt == 3}
		d, err := c.choose()
		if err != nil {
			return Answer{}, err
		}
		if d.tooLarge(q) {
			return r.large(s, key, &c, d), nil
		}
		if d.Binary || r.record(s, q, key, snap, d) {
			return d.Answer, nil
		}
	}
}

func (s *Tracker) known(q Request) *reader {
	if !q.Known {
		return nil
	}
	return s.reader(q.Reader, true)
}

// decideUnknown sends full text to an unknown reader. If the client names the tool call, a later
// Commit may identify the reader.
func (s *Tracker) decideUnknown(q Request) (Answer, error) {
	c := chooser{s: s, q: q, force: true}
	d, err := c.choose()
	if err != nil || d.Binary {
		return d.Answer, err
	}
	if d.tooLarge(q) {
		return d.large(), nil
	}
	if q.Pending && q.ToolUse != "" {
		s.orphans.add(q.ToolUse, newEntry(q, q.key(), d, 0))
	} else {
		s.accounts.answer(q.Reader, q.Tool, d.Answer)
	}
	return d.Answer, nil
}

func (d decision) tooLarge(q Request) bool {
	return q.MaxTokens > 0 && !d.Binary && d.Tokens > q.MaxTokens
}

// large returns the answer that replaces a decision above Request.MaxTokens.
func (d decision) large() Answer {
	return Answer{ReadAnswer: wire.ReadAnswer{Kind: wire.ReadLarge, TotalLines: d.TotalLines}, FullTokens: d.FullTokens}
}

// large replaces a decision above Request.MaxTokens. If the range was requested twice, the answer
// says so (Again). The caller then requests the parts with Force.
func (r *reader) large(s *Tracker, key store.Path, c *chooser, d decision) Answer {
	a := d.large()
	a.Again = c.trusted() && c.askedTwice()
	if a.Again {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.fileLocked(key, s.o.MaxFiles).askedLocked(d.span, ask{hash: c.q.Hash, full: true, tokens: d.FullTokens})
	}
	return a
}

// key returns the key of a path's record. The listing of a directory has a key that no file has.
func (q Request) key() store.Path {
	if q.Listing {
		return q.Path + "/\x00"
	}
	return q.Path
}

// record stores the decision. It returns false if the reader received something after the snapshot.
func (r *reader) record(s *Tracker, q Request, key store.Path, snap snapshot, d decision) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.fileLocked(key, s.o.MaxFiles)
	if r.epoch != snap.epoch || f.gen != snap.gen {
		return false
	}
	f.askedLocked(d.span, ask{hash: q.Hash, full: d.full, tokens: d.FullTokens})
	r.giveLocked(d.Answer)
	if q.Small > 0 && len(d.Sent()) > q.Small {
		d.effect = effect{forget: true}
	}
	if !q.Pending {
		r.deliveredLocked(s, d.Tokens)
		r.noteLocked(key, d.effect, s.now(), s.o)
		s.accounts.answer(r.id, q.Tool, d.Answer)
		return true
	}
	if q.ToolUse != "" {
		r.waitLocked(q.ToolUse, newEntry(q, key, d, r.n))
	}
	return true
}

// deliveredLocked counts tokens delivered to a context window. The caller holds r.mu.
func (r *reader) deliveredLocked(s *Tracker, n int) {
	r.delivered += int64(n)
	if !r.used {
		r.used = true
		s.accounts.context(r.id)
	}
}
