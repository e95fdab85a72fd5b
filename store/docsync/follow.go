package docsync

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fxamacker/cbor/v2"

	"cachebro/store"
	"cachebro/store/manifest"
)

const (
	batchVersions = 512
	// freshFor is how long what its maker goes on writing counts as the making
	// of a file.
	freshFor = int64(time.Minute)
	// endedFor is how long the baseline of a pair that is gone is kept.
	endedFor = int64(30 * 24 * time.Hour)
	// keptEnded bounds how many of those there are.
	keptEnded = 10_000
)

// declared is what cachebro.yml says, as of its last version that could be read.
type declared struct {
	Docs    map[store.Path][]string `cbor:"1,keyasint,omitempty"`
	Nodes   map[string][]string     `cbor:"2,keyasint,omitempty"` // what the named groups stand for
	Problem string                  `cbor:"3,keyasint,omitempty"` // why the newest version could not be read
}

// Follow takes in the versions that have been added to the log since, unless
// Options.Busy. A first time begins with the project as it is.
func (s *Sync) Follow(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.follow(ctx, s.opt.Busy)
}

// follow stops early when busy, which may be nil.
func (s *Sync) follow(ctx context.Context, busy func() bool) error {
	if !s.begun {
		if err := s.begin(); err != nil {
			return s.undone(err)
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
					return s.undone(err)
				}
			}
			s.git = v.Actor.PID
			if err := s.take(v); err != nil {
				return s.undone(err)
			}
		}
		s.at, s.clock = vs[len(vs)-1].Seq, vs[len(vs)-1].Time
		if err := s.gitWrote(s.at); err != nil {
			return s.undone(err)
		}
		if err := s.save(); err != nil {
			return s.undone(err)
		}
	}
	return ctx.Err()
}

// undone goes back to what is stored, where a batch could not be taken in.
func (s *Sync) undone(err error) error {
	return errors.Join(err, s.load())
}

// begin makes the pairs of a project whose history is older than they are.
func (s *Sync) begin() error {
	at := s.store.Seq()
	var docs []store.Version
	var own *store.Version
	err := s.store.Live("", func(v store.Version) error {
		if v.Path == manifest.Name {
			own = &v
		}
		if there(v) && s.opt.IsDoc(string(v.Path)) && len(v.Path) <= maxPath {
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
		if err := s.settle(doc, at, 0); err != nil {
			return err
		}
	}
	s.at, s.begun = at, true
	return s.save()
}

// take deals with one version.
func (s *Sync) take(v store.Version) error {
	switch {
	case v.Path == manifest.Name:
		was := s.declared.Docs
		s.declare(v)
		for doc := range s.declared.Docs {
			if err := s.settle(doc, v.Seq, v.Time); err != nil {
				return err
			}
		}
		for doc := range was {
			if _, still := s.declared.Docs[doc]; !still {
				if err := s.settle(doc, v.Seq, v.Time); err != nil {
					return err
				}
			}
		}
	case s.opt.IsDoc(string(v.Path)) && len(v.Path) <= maxPath:
		s.renamed(v)
		if err := s.read(v); err != nil {
			return err
		}
		if err := s.settle(v.Path, v.Seq, v.Time); err != nil {
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

// content is a version's text; nil where it has none that is kept.
func (s *Sync) content(v store.Version) ([]byte, error) {
	if v.Deleted() || v.Blob == (store.Hash{}) {
		return nil, nil
	}
	b, err := s.store.Content(v.Blob)
	if errors.Is(err, store.ErrPruned) || errors.Is(err, store.ErrNotFound) {
		return nil, nil // an old version: a newer one will be taken in
	}
	return b, err
}

// declare reads cachebro.yml. One that cannot be parsed, as happens while it is
// edited, leaves things as they were.
func (s *Sync) declare(v store.Version) {
	text, err := s.content(v)
	var m *manifest.Manifest
	if err == nil {
		m, err = manifest.Parse(text)
	}
	s.changed["manifest"] = &s.declared
	if err != nil {
		s.declared.Problem = err.Error()
		return
	}
	if len(text) > maxBytes/4 {
		s.declared.Problem = fmt.Sprintf("%s has more than %d bytes", manifest.Name, maxBytes/4)
		return
	}
	s.declared = declared{Docs: map[store.Path][]string{}, Nodes: map[string][]string{}}
	for _, n := range m.Nodes {
		if s.declared.Nodes[n.Name] = n.Source; len(n.Source) == 0 {
			s.declared.Nodes[n.Name] = []string{n.Name}
		}
	}
	for _, p := range m.Docs {
		for _, code := range p.Code {
			specs := []string{code}
			if n, ok := m.Node(code); ok && len(n.Source) > 0 {
				specs = n.Source
			}
			for _, spec := range specs {
				if list := s.declared.Docs[store.Path(p.Doc)]; spec != p.Doc && !slices.Contains(list, spec) && len(list) < maxRefs {
					s.declared.Docs[store.Path(p.Doc)] = append(list, spec)
				}
			}
		}
	}
}

// read takes in what a version of a document names.
func (s *Sync) read(v store.Version) error {
	text, err := s.content(v)
	if err != nil {
		return err
	}
	name := "doc\x00" + string(v.Path)
	if !there(v) {
		if _, had := s.docs[v.Path]; had {
			delete(s.docs, v.Path)
			s.changed[name] = nil
		}
		return nil
	}
	refs := named(v.Path, text, s.opt.IsCode)
	if had, ok := s.docs[v.Path]; !ok || !slices.Equal(had, refs) {
		s.docs[v.Path] = refs
		s.changed[name] = refs
	}
	return nil
}

// renamed lets a document's baselines go with it to its new name.
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

// put keeps a baseline.
func (s *Sync) put(k key, b *baseline) {
	if len(k.doc) > maxPath || len(k.spec) > maxPath {
		return
	}
	s.bases[k] = b
	s.changed[baseName(k)] = b
}

func baseName(k key) string { return "base\x00" + string(k.doc) + "\x00" + k.spec }

// settle looks at a document's pairs after something was said of it: new ones
// begin with the code as of seq, those that are gone end.
func (s *Sync) settle(doc store.Path, seq uint64, now int64) error {
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

// touched deals with a version of what may be the code of pairs.
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
		case v.Op == store.OpBaseline && v.Prev == 0 && there(v):
			// It was there before anybody looked.
			if _, had := b.Members[v.Path]; had || v.Seq <= b.Seq {
				continue
			}
			b.Members[v.Path] = ident(v)
		case b.Fresh == nil || v.Seq <= b.Seq:
			continue
		case b.Fresh.continued(v):
			if b.Seq = v.Seq; there(v) {
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
	return v.Time-f.Time < freshFor && (f.PID != 0 && f.PID == v.Actor.PID || f.Prompt != "" && f.Prompt == v.Actor.Prompt)
}

// gitWrote looks at the pairs that one git process has written to, as of its
// last write: what comes after it is not git's.
func (s *Sync) gitWrote(at uint64) error {
	for k := range s.byGit {
		if err := s.together(k, at); err != nil {
			return err
		}
	}
	clear(s.byGit)
	return nil
}

// together moves the baseline of a pair of which one git command has written
// both the document and everything that differs, from where they agreed.
func (s *Sync) together(k key, at uint64) error {
	b := s.bases[k]
	doc, ok, err := s.store.AtSeq(k.doc, at)
	if err != nil || !ok || b == nil || doc.Actor.Comm != "git" || doc.Seq <= b.Seq {
		return err
	}
	now, err := s.members(k, false, at)
	if err != nil {
		return nil // too many: Check says so
	}
	differ := differing(b.Members, now)
	for _, p := range differ {
		vs, err := s.store.History(p, false)
		if err != nil {
			return err
		}
		for _, v := range vs {
			if v.Seq > b.Seq && v.Seq <= at && (v.Actor.Comm != "git" || v.Actor.PID != doc.Actor.PID) {
				return nil
			}
		}
	}
	if len(differ) > 0 {
		s.put(k, &baseline{Seq: at, Time: doc.Time, By: "git", Members: now})
	}
	return nil
}

// differing are the paths that two sets of contents do not share.
func differing(was, now map[store.Path]store.Hash) (out []store.Path) {
	for p, h := range was {
		if n, ok := now[p]; !ok || n != h {
			out = append(out, p)
		}
	}
	for p := range now {
		if _, ok := was[p]; !ok {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}

// What one transaction of the store takes of settings.
const (
	saveBytes = 256 << 10
	saveMany  = 500
)

// save writes what has changed, and the position with the last of it: a batch
// that was cut short is taken in again, which changes nothing more.
func (s *Sync) save() error {
	s.forgetEnded()
	vals, size := map[string][]byte{}, 0
	put := func(name string, v any) error {
		if v == nil {
			vals[name] = nil
			return nil
		}
		val, err := cbor.Marshal(v)
		if err != nil {
			return fmt.Errorf("encode the pairs of documents: %w", err)
		}
		vals[name] = val
		size += len(name) + len(val)
		return nil
	}
	for name, v := range s.changed {
		if err := put(name, v); err != nil {
			return err
		}
		if size > saveBytes || len(vals) >= saveMany {
			if err := s.kv.SetAll(vals); err != nil {
				return err
			}
			vals, size = map[string][]byte{}, 0
		}
	}
	if err := put("at", s.at); err != nil {
		return err
	}
	if err := s.kv.SetAll(vals); err != nil {
		return err
	}
	if len(s.changed) > 0 {
		clear(s.changed)
		s.pin()
	}
	return nil
}

// forgetEnded drops the baselines of pairs that are gone for good.
func (s *Sync) forgetEnded() {
	if len(s.changed) == 0 {
		return
	}
	ended := 0
	for k, b := range s.bases {
		if b.Ended == 0 {
			continue
		}
		if ended++; ended > keptEnded || s.clock-b.Ended > endedFor && b.Ended > 1 {
			delete(s.bases, k)
			s.changed[baseName(k)] = nil
		}
	}
}
