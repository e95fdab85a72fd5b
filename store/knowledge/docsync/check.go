package docsync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"cachebro/store"
)

// State is the state of a pair.
type State string

// The states of a pair.
const (
	OK      State = "ok"
	Stale   State = "stale"   // the code has changed since the document described it
	Missing State = "missing" // an explicitly named path that is not a file and never was one
)

// Status is a pair and its state.
type Status struct {
	Doc       store.Path
	Spec      string
	How       How
	State     State
	Seq       uint64 // version of the baseline
	Time      int64  // time of the baseline, ns; 0: unknown
	By        string // who declared that the document was true; "": nobody
	Changes   []Change
	DocEdited bool // the document was written after the newest change
	DocGone   bool // the document is declared but does not exist
	Problem   string
}

// Change is a file of a stale pair.
type Change struct {
	Path     store.Path
	What     string        // changed, added, deleted, moved
	To       store.Path    // new path, for moved
	Was      store.Hash    // content in the baseline; zero if it did not exist
	First    store.Version // the first version that differs; Seq 0: dropped from the log
	Last     store.Version // the newest version
	Versions int           // number of versions from First to Last
}

// Filter selects pairs. The zero value selects all.
type Filter struct {
	// Name is a named group of cachebro.yml. Ref is a document, a file, or a directory with
	// documents or files. If the group exists, Ref is ignored.
	Ref, Name string
	// Explicit leaves out inferred pairs.
	Explicit bool
}

// Report is the result of Check.
type Report struct {
	Seq      uint64 // newest version of the log
	Pairs    []Status
	Problems []string // problems with cachebro.yml
}

// Check compares the selected pairs with the present code. It first reads the versions that were
// added to the log.
func (s *Sync) Check(ctx context.Context, f Filter) (Report, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.follow(ctx, nil); err != nil {
		return Report{}, err
	}
	r := Report{Seq: s.at}
	if s.declared.Problem != "" {
		r.Problems = strings.Split(s.declared.Problem, "\n")
	}
	for doc, refs := range s.active {
		for _, ref := range refs {
			if f.Explicit && ref.How == Inferred {
				continue
			}
			st, err := s.status(key{doc, ref.Spec}, ref.How)
			if err != nil {
				return r, err
			}
			if s.selects(f, st) && (st.State != Missing || ref.How != Inferred) {
				r.Pairs = append(r.Pairs, st)
			}
		}
	}
	slices.SortFunc(r.Pairs, func(a, b Status) int {
		return cmp.Or(cmp.Compare(a.Doc, b.Doc), cmp.Compare(a.Spec, b.Spec))
	})
	return r, ctx.Err()
}

// selects reports whether a filter selects a pair.
func (s *Sync) selects(f Filter, st Status) bool {
	means := func(ref string) bool {
		ref = strings.TrimSuffix(ref, "/")
		spec := strings.TrimSuffix(st.Spec, "/")
		switch {
		case covers(ref, st.Doc), ref == spec, covers(ref, store.Path(spec)), covers(st.Spec, store.Path(ref)):
			return true
		}
		return slices.ContainsFunc(st.Changes, func(c Change) bool { return covers(ref, c.Path) })
	}
	if node, ok := s.declared.Nodes[f.Name]; ok {
		return slices.ContainsFunc(node, means)
	}
	ref := strings.TrimSuffix(f.Ref, "/")
	return ref == "" || ref == "." || means(ref)
}

func (s *Sync) status(k key, how How) (Status, error) {
	st := Status{Doc: k.doc, Spec: k.spec, How: how, State: OK}
	doc, ok, err := s.store.AtSeq(k.doc, s.at)
	if err != nil {
		return st, err
	}
	st.DocGone = !ok || !documentable(doc)
	b := s.bases[k]
	now, err := s.members(k, how == Inferred, s.at)
	switch {
	case errors.Is(err, ErrTooMany):
		st.State, st.Problem = Missing, fmt.Sprintf("%s %v", k.spec, err)
		return st, nil
	case err != nil:
		return st, err
	case b == nil:
		st.State, st.Problem = Missing, k.spec+" does not exist"
		return st, nil
	}
	st.Seq, st.Time, st.By = b.Seq, b.Time, b.By
	newest := uint64(0)
	for _, p := range differing(b.Members, now) {
		c, err := s.change(p, b, now)
		if err != nil {
			return st, err
		}
		newest = max(newest, c.Last.Seq)
		st.Changes = append(st.Changes, c)
	}
	if len(st.Changes) > 0 {
		st.State = Stale
		st.DocEdited = doc.Seq > newest
	}
	if st.DocGone {
		st.Problem = string(k.doc) + " does not exist"
	}
	return st, nil
}

// change describes how a path came to differ from its baseline.
func (s *Sync) change(p store.Path, b *baseline, now map[store.Path]store.Hash) (Change, error) {
	was, had := b.Members[p]
	c := Change{Path: p, What: "changed", Was: was}
	vs, err := s.store.History(p, false)
	if err != nil {
		return c, err
	}
	for _, v := range vs {
		if v.Seq <= b.Seq || v.Seq > s.at {
			continue
		}
		same := documentable(v) == had && (!had || ident(v) == was)
		if c.First.Seq == 0 && !same {
			c.First = v
		}
		c.Last = v
		if c.First.Seq != 0 {
			c.Versions++
		}
	}
	if c.Last.Seq == 0 && len(vs) > 0 {
		c.Last = vs[len(vs)-1]
	}
	switch _, has := now[p]; {
	case !had:
		c.What = "added"
	case !has && c.Last.Op == store.OpMoved:
		c.What, c.To = "moved", c.Last.To
	case !has:
		c.What = "deleted"
	}
	return c, nil
}

// Mark records that the documents of the selected pairs agree with the code as it was at version
// asOf of the log (0: now). by identifies who declared this. If edited is set, it marks only pairs
// whose document was written after the code. It returns the state of the marked pairs before the
// mark, and the version.
func (s *Sync) Mark(ctx context.Context, f Filter, asOf uint64, edited bool, by string, now int64) (was []Status, seq uint64, err error) {
	r, err := s.Check(ctx, f)
	if err != nil {
		return nil, 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if asOf == 0 || asOf > r.Seq {
		asOf = r.Seq
	}
	for _, st := range r.Pairs {
		if edited && !(st.State == Stale && st.DocEdited) {
			continue
		}
		k := key{st.Doc, st.Spec}
		b := s.bases[k]
		if st.Problem != "" && b == nil || b != nil && b.Seq > asOf {
			continue
		}
		m, err := s.members(k, st.How == Inferred, asOf)
		if err != nil {
			return nil, 0, s.reload(err)
		}
		if len(m) > 0 || b != nil {
			s.put(k, &baseline{Seq: asOf, Time: now, By: by, Members: m})
			was = append(was, st)
		}
	}
	if err := s.save(); err != nil {
		return nil, 0, s.reload(err)
	}
	return was, asOf, nil
}
