// Package answers keeps answers: those of exact searches and of memo, which depend on
// what their key says alone and may be shared with other projects and machines, and those
// that hold for this project only. It also says what the tracked files are, as a digest.
package answers

import (
	"log/slog"

	"cachebro/cmd/cachebro/daemon/ingest"
	"cachebro/cmd/cachebro/daemon/survey"
	"cachebro/store"
	"cachebro/store/memo/results"
	"cachebro/store/wire"
)

// Answers are the kept answers. The methods may be called concurrently.
type Answers struct {
	store  *store.Store
	ingest *ingest.Ingester
	survey *survey.Survey
	log    *slog.Logger
	off    bool // nothing is to be kept

	cache  *results.Cache // memory, disk and Redis
	local  *results.Cache // memory and disk
	shared *results.Cache // Redis; nil: none
	kept   *results.Kept  // nil: could not be opened
	redis  *results.Redis // nil: not set, or unusable
	bad    string         // what is wrong with the settings

	digests *digests
}

// Open never fails: without a store there are fewer hits.
func Open(s results.Settings, st *store.Store, in *ingest.Ingester, sv *survey.Survey, log *slog.Logger) *Answers {
	an := &Answers{store: st, ingest: in, survey: sv, log: log, off: s.Off, digests: &digests{store: st}}
	an.open(s)
	return an
}

// Handlers are those of the requests about kept answers.
func (an *Answers) Handlers() map[string]wire.Handler {
	return map[string]wire.Handler{wire.MResults: an.request}
}
