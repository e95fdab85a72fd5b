// Package reads answers reads with the whole text, a diff or "unchanged", depending on what each
// reader was shown before. Clients report what they delivered, and the package counts the savings.
// It also tracks which files each session reads and edits (its working set), and which files are
// read before others are written.
package reads

import (
	"cachebro/cmd/cachebro/daemon/attribution"
	"cachebro/cmd/cachebro/daemon/ingest"
	"cachebro/cmd/cachebro/daemon/lost"
	"cachebro/cmd/cachebro/daemon/source"
	"cachebro/cmd/cachebro/daemon/survey"
	"cachebro/store"
	"cachebro/store/onwire"
	"cachebro/store/readers"
	"cachebro/store/wire"
)

// Reads answers readers. All fields are required.
type Reads struct {
	Store       *store.Store
	Source      *source.Source
	Ingest      *ingest.Ingester
	Attribution *attribution.Attribution
	Survey      *survey.Survey
	Sets        *WorkingSets
	Shown       *readers.Tracker
	Texts       *Texts // the texts that Shown makes diffs from
	Paths       onwire.Paths
	Lost        *lost.Service
}

// Handlers returns the handlers of the requests about reads, by method.
func (rd *Reads) Handlers() map[string]wire.Handler {
	return map[string]wire.Handler{
		wire.MRead: onwire.WithRequest(rd.read), wire.MShown: onwire.WithRequest(rd.shownText), wire.MCommit: onwire.WithRequest(rd.commit),
		wire.MOwnEdit: onwire.WithRequest(rd.ownEdit), wire.MGiven: onwire.WithRequest(rd.given), wire.MMetrics: onwire.Decoded(rd.Metrics),
		wire.MForget: onwire.WithRequest(rd.forget), wire.MSpend: onwire.WithRequest(rd.spend), wire.MIngest: onwire.WithRequest(rd.storeForTool),
	}
}
