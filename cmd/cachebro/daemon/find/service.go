// Package find answers searches: exact and ranked searches, and searches for definitions, names,
// notes and past versions. It maintains the index and keeps it up to date with the log.
package find

import (
	"log/slog"

	"cachebro/cmd/cachebro/daemon/answers"
	"cachebro/cmd/cachebro/daemon/knowledge"
	"cachebro/cmd/cachebro/daemon/reads"
	"cachebro/cmd/cachebro/daemon/source"
	"cachebro/cmd/cachebro/daemon/survey"
	"cachebro/search"
	"cachebro/store"
	"cachebro/store/leaf/cache"
	"cachebro/store/onwire"
	"cachebro/store/wire"
)

// Options configure New. All are required.
type Options struct {
	Store     *store.Store
	Source    *source.Source
	Survey    *survey.Survey
	Answers   *answers.Answers
	Sets      *reads.WorkingSets
	Knowledge *knowledge.Knowledge
	Index     *search.Index
	Files     search.Corpus // what the index reads from
	Paths     onwire.Paths
	Log       *slog.Logger
}

// Finder answers searches.
type Finder struct {
	Options

	hitIDs hitIDs
	news   chan struct{} // capacity 1, never closed: signals that the first indexing may begin
}

// New makes the service. Run must be called.
func New(o Options) *Finder {
	return &Finder{Options: o, hitIDs: hitIDs{known: cache.New[string, wire.SearchHit](2*maxHitIDs, nil)}, news: make(chan struct{}, 1)}
}

// Handlers returns the handlers of the requests about searches and the index, by method.
func (f *Finder) Handlers() map[string]wire.Handler {
	return map[string]wire.Handler{
		wire.MSearch: onwire.Decoded(f.search), wire.MIndex: onwire.Decoded(f.indexRequest), wire.MOutline: onwire.Decoded(f.outline),
	}
}
