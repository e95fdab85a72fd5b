package docsync

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"cachebro/store"
	"cachebro/store/knowledge/manifest"
)

const (
	batchVersions = 512
	// freshFor is how long further writes by a file's creator count as part of its creation.
	freshFor = int64(time.Minute)
)

// Follow reads the versions that were added to the log. It stops early if Options.Busy returns
// true. The first call begins with the present state of the project.
func (s *Sync) Follow(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.follow(ctx, s.opt.Busy)
}

// follow is like Follow, but uses busy, which may be nil, instead of Options.Busy.
func (s *Sync) follow(ctx context.Context, busy func() bool) error {
	if !s.begun {
		if err := s.begin(); err != nil {
			return s.reload(err)
		}
	}
	for ctx.Err() == nil && (busy == nil || !busy()) {
		vs, err := s.store.Since(s.at, batchVersions)
		if err != nil || len(vs) == 0 {
			return err
		}
		for _, v := range vs {
			if v.Actor.Comm != "git" || v.Actor.PID != s.git {
				if err := s.gitWrote(v.Seq - 1); err != nil {
					return s.reload(err)
				}
			}
			s.git = v.Actor.PID
			if err := s.take(v); err != nil {
				return s.reload(err)
			}
		}
		s.at, s.clock = vs[len(vs)-1].Seq, vs[len(vs)-1].Time
		if err := s.gitWrote(s.at); err != nil {
			return s.reload(err)
		}
		if err := s.save(); err != nil {
			return s.reload(err)
		}
	}
	return ctx.Err()
}

// reload restores the stored state after a batch that failed.
func (s *Sync) reload(err error) error {
	return errors.Join(err, s.load())
}

// begin creates the first pairs of a project that already has a history.
func (s *Sync) begin() error {
	at := s.store.Seq()
	var docs []store.Version
	var own *store.Version
	err := s.store.Live("", func(v store.Version) error {
		if v.Path == manifest.Name {
			own = &v
		}
		if documentable(v) && s.opt.IsDoc(string(v.Path)) && len(v.Path) <= maxPath {
			docs = append(docs, v)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if own != nil {
		s.declare(*own)
	}
	for _, v := range docs {
		if err := s.read(v); err != nil {
			return err
		}
	}
	for doc := range s.documents() {
		if err := s.recheck(doc, at, 0); err != nil {
			return err
		}
	}
	s.at, s.begun = at, true
	return s.save()
}

// take processes one version.
func (s *Sync) take(v store.Version) error {
	switch {
	case v.Path == manifest.Name:
		was := s.declared.Docs
		s.declare(v)
		for doc := range s.declared.Docs {
			if err := s.recheck(doc, v.Seq, v.Time); err != nil {
				return err
			}
		}
		for doc := range was {
			if _, still := s.declared.Docs[doc]; !still {
				if err := s.recheck(doc, v.Seq, v.Time); err != nil {
					return err
				}
			}
		}
	case s.opt.IsDoc(string(v.Path)) && len(v.Path) <= maxPath:
		s.renamed(v)
		if err := s.read(v); err != nil {
			return err
		}
		if err := s.recheck(v.Path, v.Seq, v.Time); err != nil {
			return err
		}
		if v.Actor.Comm == "git" {
			for _, r := range s.active[v.Path] {
				s.byGit[key{v.Path, r.Spec}] = true
			}
		}
	}
	return s.touched(v)
}

// content returns a version's text, or nil if the text is not stored or there is none.
func (s *Sync) content(v store.Version) ([]byte, error) {
	if v.Deleted() || v.Blob == (store.Hash{}) {
		return nil, nil
	}
	b, err := s.store.Content(v.Blob)
	if errors.Is(err, store.ErrPruned) || errors.Is(err, store.ErrNotFound) {
		return nil, nil // an old version; a newer one will follow
	}
	return b, err
}

// read updates the paths that a document names, from a version of the document.
func (s *Sync) read(v store.Version) error {
	text, err := s.content(v)
	if err != nil {
		return err
	}
	name := "doc\x00" + string(v.Path)
	if !documentable(v) {
		if _, had := s.docs[v.Path]; had {
			delete(s.docs, v.Path)
			s.changed[name] = nil
		}
		return nil
	}
	refs := refsIn(v.Path, text, s.opt.IsCode)
	if had, ok := s.docs[v.Path]; !ok || !slices.Equal(had, refs) {
		s.docs[v.Path] = refs
		s.changed[name] = refs
	}
	return nil
}

// renamed copies a document's baselines to its new name.
func (s *Sync) renamed(v store.Version) {
	if v.Op != store.OpRename || v.From == "" {
		return
	}
	for k, b := range maps.Clone(s.bases) {
		to := key{v.Path, k.spec}
		if k.doc == v.From && s.bases[to] == nil {
			c := *b
			c.Members, c.Ended = maps.Clone(b.Members), 0
			s.put(to, &c)
		}
	}
}

// recheck updates a document's pairs after the paths that it names have changed. New pairs begin
// with the code at seq. Pairs that the document does not name any more end.
func (s *Sync) recheck(doc store.Path, seq uint64, now int64) error {
	before := s.active[doc]
	s.activate(doc)
	for _, r := range s.active[doc] {
		k := key{doc, r.Spec}
		b := s.bases[k]
		switch {
		case b == nil:
			m, err := s.members(k, r.How == Inferred, seq)
			if err != nil && !errors.Is(err, ErrTooMany) {
				return err
			}
			if len(m) > 0 && err == nil {
				s.put(k, &baseline{Seq: seq, Time: now, Members: m})
			}
		case b.Ended != 0:
			b.Ended = 0
			s.put(k, b)
		}
	}
	for _, r := range before {
		k := key{doc, r.Spec}
		if b := s.bases[k]; b != nil && !slices.ContainsFunc(s.active[doc], func(o Ref) bool { return o.Spec == r.Spec }) {
			b.Ended = max(now, 1)
			s.put(k, b)
		}
	}
	return nil
}

// touched processes a version of a file that may be code of pairs.
func (s *Sync) touched(v store.Version) error {
	for _, k := range s.watching(v.Path) {
		b := s.bases[k]
		if v.Actor.Comm == "git" {
			s.byGit[k] = true
		}
		switch {
		case b == nil:
			m, err := s.members(k, string(v.Path) == k.spec, v.Seq)
			if err != nil && !errors.Is(err, ErrTooMany) {
				return err
			}
			if len(m) == 0 || err != nil {
				continue
			}
			b = &baseline{Seq: v.Seq, Time: v.Time, Members: m}
			if v.Op != store.OpBaseline {
				b.Fresh = &fresh{PID: v.Actor.PID, Prompt: v.Actor.Prompt, Time: v.Time}
			}
		case v.Op == store.OpBaseline && v.Prev == 0 && documentable(v):
			// The file existed before its first recorded version.
			if _, had := b.Members[v.Path]; had || v.Seq <= b.Seq {
				continue
			}
			b.Members[v.Path] = ident(v)
		case b.Fresh == nil || v.Seq <= b.Seq:
			continue
		case b.Fresh.continued(v):
			b.Seq = v.Seq
			if documentable(v) {
				b.Members[v.Path] = ident(v)
			} else {
				delete(b.Members, v.Path)
			}
		default:
			b.Fresh = nil
		}
		s.put(k, b)
	}
	return nil
}

func (f *fresh) continued(v store.Version) bool {
	sameProcess := f.PID != 0 && f.PID == v.Actor.PID
	samePrompt := f.Prompt != "" && f.Prompt == v.Actor.Prompt
	return v.Time-f.Time < freshFor && (sameProcess || samePrompt)
}
