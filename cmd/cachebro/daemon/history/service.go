// Package history answers requests about the version log: log, show, diff and blame.
package history

import (
	"cachebro/cmd/cachebro/daemon/attribution"
	"cachebro/cmd/cachebro/daemon/lost"
	"cachebro/cmd/cachebro/daemon/source"
	"cachebro/cmd/cachebro/daemon/survey"
	"cachebro/store"
	"cachebro/store/onwire"
	"cachebro/store/wire"
)

// History answers requests about the version log.
type History struct {
	Store       *store.Store
	Source      *source.Source
	Survey      *survey.Survey
	Paths       onwire.Paths
	Lost        *lost.Service
	Attribution *attribution.Attribution
}

// Handlers returns the handlers of the requests about the history, by method.
func (h *History) Handlers() map[string]wire.Handler {
	return map[string]wire.Handler{
		wire.MLog: onwire.WithRequest(h.log), wire.MShow: onwire.Decoded(h.show),
		wire.MDiff: onwire.Decoded(h.diff), wire.MBlame: onwire.Decoded(h.blame),
	}
}
