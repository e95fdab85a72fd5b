// Package reads answers reads: whole, as a difference or as "unchanged", by what each
// reader was shown before. It hears what the clients delivered, and counts what was saved.
package reads

import (
	"cachebro/cmd/cachebro/daemon/attribution"
	"cachebro/cmd/cachebro/daemon/ingest"
	"cachebro/cmd/cachebro/daemon/lost"
	"cachebro/cmd/cachebro/daemon/source"
	"cachebro/cmd/cachebro/daemon/survey"
	"cachebro/cmd/cachebro/daemon/workingset"
	"cachebro/store"
	"cachebro/store/onwire"
	"cachebro/store/readers"
	"cachebro/store/wire"
)

// Options of New. All are needed.
type Options struct {
	Store       *store.Store
	Source      *source.Source
	Ingest      *ingest.Ingester
	Attribution *attribution.Attribution
	Survey      *survey.Survey
	Sets        *workingset.Sets
	Shown       *readers.Tracker
	Texts       *Texts // what Shown makes diffs from
	Paths       onwire.Paths
	Lost        *lost.Service
}

// Reads answers readers.
type Reads struct {
	store       *store.Store
	source      *source.Source
	ingest      *ingest.Ingester
	attribution *attribution.Attribution
	survey      *survey.Survey
	sets        *workingset.Sets
	shown       *readers.Tracker
	texts       *Texts
	paths       onwire.Paths
	lost        *lost.Service
}

// New makes the service.
func New(o Options) *Reads {
	return &Reads{store: o.Store, source: o.Source, ingest: o.Ingest, attribution: o.Attribution, survey: o.Survey, sets: o.Sets, shown: o.Shown, texts: o.Texts, paths: o.Paths, lost: o.Lost}
}

// Handlers are those of the requests about reads.
func (rd *Reads) Handlers() map[string]wire.Handler {
	return map[string]wire.Handler{
		wire.MRead: rd.read, wire.MShown: rd.shownText, wire.MCommit: rd.commit, wire.MOwnEdit: rd.ownEdit, wire.MGiven: rd.given,
		wire.MMetrics: onwire.Decoded(rd.Metrics), wire.MSpend: rd.spend, wire.MIngest: rd.keepGiven,
	}
}
