// Package knowledge answers questions about the project that the text of its files does not answer.
// It holds notes, finds documents that are out of date with their code, and maintains the graph for
// get_context.
package knowledge

import (
	"errors"
	"log/slog"

	"cachebro/cmd/cachebro/daemon/answers"
	"cachebro/cmd/cachebro/daemon/attribution"
	"cachebro/cmd/cachebro/daemon/ingest"
	"cachebro/cmd/cachebro/daemon/reads"
	"cachebro/cmd/cachebro/daemon/survey"
	"cachebro/store"
	"cachebro/store/knowledge/docsync"

	"cachebro/store/onwire"
	"cachebro/store/wire"
)

// Options configure Open. All are required.
type Options struct {
	Store       *store.Store
	Ingest      *ingest.Ingester
	Attribution *attribution.Attribution
	Survey      *survey.Survey
	Answers     *answers.Answers
	Sets        *reads.WorkingSets
	Reads       *reads.Reads
	Paths       onwire.Paths
	Version     string      // of this program
	IndexHeld   func() bool // reports whether the index is held back
	Log         *slog.Logger
}

// Knowledge answers requests about notes, documents and the graph.
type Knowledge struct {
	Options

	notes   *NoteBook
	docs    *docsync.Sync
	bundles bundles
	news    chan struct{} // capacity 1, never closed: versions have been added
}

// Open loads what was stored. Run must be called.
func Open(o Options) (*Knowledge, error) {
	kn := &Knowledge{Options: o, news: make(chan struct{}, 1)}
	kn.openBundles()
	return kn, errors.Join(kn.openNotes(), kn.openDocs())
}

// Handlers returns the handlers of the requests about notes, documents and the graph, by method.
func (kn *Knowledge) Handlers() map[string]wire.Handler {
	return map[string]wire.Handler{wire.MNotes: onwire.WithRequest(kn.notesRequest), wire.MDocs: onwire.WithRequest(kn.docsRequest), wire.MContext: onwire.WithRequest(kn.contextRequest)}
}
