// Package plans plans how to undo changes. It hands the plan's contents to the client that carries
// the plan out, and ends plans that a client left unfinished. The daemon itself writes nothing into
// the project.
package plans

import (
	"context"
	"log/slog"
	"path/filepath"

	"cachebro/cmd/cachebro/daemon/actions"
	"cachebro/cmd/cachebro/daemon/attribution"
	"cachebro/cmd/cachebro/daemon/gitstate"
	"cachebro/cmd/cachebro/daemon/ingest"
	"cachebro/cmd/cachebro/daemon/lost"
	"cachebro/cmd/cachebro/daemon/source"
	"cachebro/cmd/cachebro/daemon/survey"
	"cachebro/store"
	"cachebro/store/onwire"
	"cachebro/store/wire"
)

// Options configure New. All are required.
type Options struct {
	Store       *store.Store
	Source      *source.Source
	Ingest      *ingest.Ingester
	Attribution *attribution.Attribution
	Survey      *survey.Survey
	Actions     *actions.Service
	Lost        *lost.Service
	Git         *gitstate.Service
	Paths       onwire.Paths
	Places      wire.Paths              // where the histories are
	Hold        func() (release func()) // stops the index from ingesting versions
	Log         *slog.Logger
}

// Plans answers requests for undo and restore.
type Plans struct {
	Options

	recent contents
	pause  indexPause
}

// New makes the service.
func New(o Options) *Plans {
	return &Plans{Options: o}
}

// Handlers returns the handlers of the requests about plans, by method.
func (pl *Plans) Handlers() map[string]wire.Handler {
	return map[string]wire.Handler{
		wire.MPlan: onwire.WithRequest(pl.plan), wire.MPlanDone: onwire.WithRequest(pl.planDone), wire.MGitPlan: onwire.WithRequest(pl.planGit), wire.MGitLost: onwire.Decoded(pl.gitLost),
		wire.MPlanThere: onwire.Decoded(pl.changesFor), wire.MPlanWanted: onwire.Decoded(pl.wanted),
		wire.MPlanOpen: onwire.Decoded(pl.openPlans), wire.MPlanFetch: onwire.Decoded(pl.planFetch),
	}
}

// repository returns the reason why a plan must not remove a directory: it has a .git, so it is a
// repository, a worktree or a submodule. If the plan removed its files, only the .git would remain.
// Git would still consider the worktree valid, and a repository may hold commits that exist nowhere
// else.
func (pl *Plans) repository(ctx context.Context, dir store.Path) string {
	st, err := pl.Source.Lstat(ctx, dir+"/.git")
	switch {
	case err != nil:
		return ""
	case st.IsRegular():
		return "it is a git worktree or submodule, so it is not removed; git worktree remove " + filepath.Join(pl.Paths.Root, string(dir)) + ", or git rm for a submodule, removes it unless that would lose something"
	}
	return "it is now a git repository, so it is not removed; remove it yourself if you need nothing in it"
}
