package docsync

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"cachebro/store"
)

// Options configure a Sync.
type Options struct {
	IsDoc  func(path string) bool // reports by its name whether a file is a document
	IsCode func(path string) bool // reports by its name whether a file may be described by a document
	// Busy, if not nil, reports whether other work needs the machine. Follow then stops early.
	Busy func() bool
}

// key identifies a pair.
type key struct {
	doc  store.Path
	spec string
}

// baseline is the state of a pair's code when its document was true.
type baseline struct {
	Seq     uint64                    `cbor:"1,keyasint"`           // version of the log
	Time    int64                     `cbor:"2,keyasint"`           // when the baseline was created or declared, ns
	By      string                    `cbor:"3,keyasint,omitempty"` // who declared it; "": nobody
	Members map[store.Path]store.Hash `cbor:"4,keyasint,omitempty"`
	Fresh   *fresh                    `cbor:"5,keyasint,omitempty"`
	// Ended is when the pair ended; 0 while it exists. An ended baseline is kept for a while,
	// because some editors and git delete a document and create it again.
	Ended int64 `cbor:"6,keyasint,omitempty"`
}

// fresh records who created the code of a new pair, and when. Writes by the same process or prompt
// within freshFor belong to the creation.
type fresh struct {
	PID    uint32 `cbor:"1,keyasint,omitempty"`
	Prompt string `cbor:"2,keyasint,omitempty"`
	Time   int64  `cbor:"3,keyasint"`
}

// Sync holds the pairs of one project. Its methods may be called concurrently.
type Sync struct {
	store *store.Store
	kv    store.KV
	opt   Options
	pins  atomic.Pointer[map[store.Hash]struct{}]

	mu       sync.Mutex // guards the fields below
	at       uint64
	clock    int64 // time of version at; 0: unknown
	begun    bool
	declared declared
	docs     map[store.Path][]Ref // code named by each existing document
	bases    map[key]*baseline
	exact    map[string]map[key]bool // pairs whose spec is not a pattern, by spec
	globs    map[key]bool
	active   map[store.Path][]Ref // pairs of each document that are in exact and globs
	changed  map[string]any       // settings to write; nil deletes
	byGit    map[key]bool         // pairs whose document or code the process git has just written
	git      uint32               // pid of the process that made the version read last
}

// Open reads the stored state. Follow brings it up to date.
func Open(s *store.Store, o Options) (*Sync, error) {
	y := &Sync{store: s, kv: s.KV("docsync"), opt: o}
	if err := y.load(); err != nil || y.begun || s.Seq() > 0 {
		return y, err
	}
	y.begun = true // a new project has no earlier versions
	return y, y.save()
}

func (s *Sync) load() error {
	s.docs = map[store.Path][]Ref{}
	s.bases = map[key]*baseline{}
	s.changed = map[string]any{}
	s.byGit = map[key]bool{}
	s.at, s.declared = 0, declared{}
	s.exact = map[string]map[key]bool{}
	s.globs = map[key]bool{}
	s.active = map[store.Path][]Ref{}
	var bad []string
	err := s.kv.Scan("", func(name string, val []byte) error {
		kind, rest, _ := strings.Cut(name, "\x00")
		var err error
		switch kind {
		case "at":
			s.begun = true
			err = store.DecMode.Unmarshal(val, &s.at)
		case "manifest":
			err = store.DecMode.Unmarshal(val, &s.declared)
		case "doc":
			var refs []Ref
			err = store.DecMode.Unmarshal(val, &refs)
			s.docs[store.Path(rest)] = refs
		case "base":
			var b baseline
			err = store.DecMode.Unmarshal(val, &b)
			doc, spec, _ := strings.Cut(rest, "\x00")
			s.bases[key{store.Path(doc), spec}] = &b
		}
		if err != nil {
			bad = append(bad, fmt.Sprintf("%q", name))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the pairs of documents and code: %w", err)
	}
	if newest := s.store.Seq(); s.at > newest {
		s.at = newest // the store lost its end in a power failure
	}
	for doc := range s.documents() {
		s.activate(doc)
	}
	s.pin()
	if len(bad) > 0 {
		return fmt.Errorf("%w: %s", ErrUnreadable, strings.Join(bad, ", "))
	}
	return nil
}

// ErrUnreadable means that part of the stored state is not readable. The rest is usable.
var ErrUnreadable = errors.New("pairs of documents and code that cannot be read")

// documents returns all documents that name code.
func (s *Sync) documents() map[store.Path]bool {
	all := map[store.Path]bool{}
	for doc := range s.docs {
		all[doc] = true
	}
	for doc := range s.declared.Docs {
		all[doc] = true
	}
	for doc := range s.active {
		all[doc] = true
	}
	return all
}

// refs returns the code that a document describes. If the code is not declared explicitly, it is
// inferred from the paths in the document.
func (s *Sync) refs(doc store.Path) []Ref {
	refs, has := s.docs[doc]
	var explicit []Ref
	for _, spec := range s.declared.Docs[doc] {
		explicit = append(explicit, Ref{spec, Declared})
	}
	if !has {
		return explicit // the document does not exist
	}
	for _, r := range refs {
		if r.How == Comment {
			explicit = append(explicit, r)
		}
	}
	if len(explicit) > 0 {
		return explicit
	}
	return refs
}

// activate updates the tables in which touched finds a document's pairs.
func (s *Sync) activate(doc store.Path) {
	for _, r := range s.active[doc] {
		k := key{doc, r.Spec}
		delete(s.globs, k)
		at := strings.TrimSuffix(r.Spec, "/")
		if delete(s.exact[at], k); len(s.exact[at]) == 0 {
			delete(s.exact, at)
		}
	}
	refs := s.refs(doc)
	if len(refs) == 0 {
		delete(s.active, doc)
		return
	}
	s.active[doc] = refs
	for _, r := range refs {
		k := key{doc, r.Spec}
		if pattern(r.Spec) || r.Spec == "./" {
			s.globs[k] = true
			continue
		}
		at := strings.TrimSuffix(r.Spec, "/")
		if s.exact[at] == nil {
			s.exact[at] = map[key]bool{}
		}
		s.exact[at][k] = true
	}
}

// watching returns the pairs whose code includes a path.
func (s *Sync) watching(p store.Path) (out []key) {
	take := func(set map[key]bool) {
		for k := range set {
			if k.doc != p && covers(k.spec, p) {
				out = append(out, k)
			}
		}
	}
	take(s.globs)
	for at := string(p); at != ""; at = at[:max(0, strings.LastIndexByte(at, '/'))] {
		take(s.exact[at])
	}
	return out
}

// Pinned reports whether a content is part of a baseline. Diffs start from it, so retention treats
// it like the base of a reader's diff.
func (s *Sync) Pinned(h store.Hash) bool {
	_, ok := (*s.pins.Load())[h]
	return ok
}

func (s *Sync) pin() {
	set := map[store.Hash]struct{}{}
	for _, b := range s.bases {
		for _, h := range b.Members {
			set[h] = struct{}{}
		}
	}
	s.pins.Store(&set)
}
