package reads

import (
	"log/slog"

	"cachebro/cmd/cachebro/daemon/attribution"
	"cachebro/cmd/cachebro/daemon/bundle"
	"cachebro/cmd/cachebro/daemon/ingest"
	"cachebro/cmd/cachebro/daemon/source"
	"cachebro/store"
	"cachebro/store/onwire"
	"cachebro/store/wire"
)

// WorkingSets holds the working sets of all sessions. The methods may be called concurrently.
type WorkingSets struct {
	store       *store.Store
	source      *source.Source
	ingest      *ingest.Ingester
	attribution *attribution.Attribution
	log         *slog.Logger

	waiting waitingReads
	news    chan struct{} // capacity 1, never closed: reads are waiting
	pairs   *bundle.Pairs
	rows    store.KV // the stored pairs
}

// OpenWorkingSets opens the working sets. It never fails. If the stored pairs cannot be read, some
// hints are missing. Run must be called.
func OpenWorkingSets(st *store.Store, src *source.Source, in *ingest.Ingester, at *attribution.Attribution, log *slog.Logger) *WorkingSets {
	ws := &WorkingSets{store: st, source: src, ingest: in, attribution: at, log: log, news: make(chan struct{}, 1)}
	ws.openPairs()
	return ws
}

// Handlers returns the handlers of the requests about working sets, by method.
func (ws *WorkingSets) Handlers() map[string]wire.Handler {
	return map[string]wire.Handler{wire.MWorkingSet: onwire.Decoded(ws.Answer)}
}
