// Package answers caches answers. The answers of exact searches and of memo depend only on their
// keys, so other projects and machines may share them. All other answers are valid only in this
// project. The package also computes a digest of the tracked files.
package answers

import (
	"log/slog"

	"cachebro/cmd/cachebro/daemon/ingest"
	"cachebro/cmd/cachebro/daemon/survey"
	"cachebro/store"
	"cachebro/store/memo/results"
	"cachebro/store/onwire"
	"cachebro/store/wire"
)

// Answers is the cache. The methods may be called concurrently.
type Answers struct {
	store  *store.Store
	ingest *ingest.Ingester
	survey *survey.Survey
	log    *slog.Logger
	off    bool // nothing is cached

	cache  *results.Cache // memory, disk and Redis
	local  *results.Cache // memory and disk
	shared *results.Cache // Redis; nil if there is none
	disk   *results.Disk  // nil if it could not be opened
	redis  *results.Redis // nil if it is not configured or unusable
	bad    string         // what is wrong with the settings

	digests *digests
}

// Open opens the cache. It never fails. Without a store, fewer answers are found in the cache.
func Open(s results.Settings, st *store.Store, in *ingest.Ingester, sv *survey.Survey, log *slog.Logger) *Answers {
	an := &Answers{store: st, ingest: in, survey: sv, log: log, off: s.Off, digests: &digests{store: st}}
	an.open(s)
	return an
}

// Handlers returns the handlers of the requests about cached answers, by method.
func (an *Answers) Handlers() map[string]wire.Handler {
	return map[string]wire.Handler{wire.MResults: onwire.WithRequest(an.request)}
}
