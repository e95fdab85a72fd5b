// Package plans plans how to undo changes. It hands the plan's contents to the client that carries
// the plan out, and ends plans that a client left unfinished. The daemon itself writes nothing into
// the project.
package plans

import (
	"context"
	"log/slog"
	"slices"
	"strings"

	"cachebro/cmd/cachebro/daemon/actions"
	"cachebro/cmd/cachebro/daemon/attribution"
	"cachebro/cmd/cachebro/daemon/gitstate"
	"cachebro/cmd/cachebro/daemon/ingest"
	"cachebro/cmd/cachebro/daemon/lost"
	"cachebro/cmd/cachebro/daemon/source"
	"cachebro/cmd/cachebro/daemon/survey"
	"cachebro/store"
	"cachebro/store/onwire"
	"cachebro/store/undo"
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

// leaveRepositories drops from the plan, and names, each directory that has a git repository and
// that the undo would empty. Otherwise only its .git would remain. Git would still consider such a
// worktree valid, and the .git of a clone may hold commits that exist nowhere else.
func (pl *Plans) leaveRepositories(ctx context.Context, p *undo.Draft) {
	var left []store.Path
	for _, s := range p.Steps {
		if s.Do != "rmdir" {
			continue
		}
		st, err := pl.Source.Lstat(ctx, s.Path+"/.git")
		if err != nil {
			continue
		}
		left = append(left, s.Path)
		why := "it is now a git repository, so it is not removed; remove it yourself if you need nothing in it"
		if st.Mode&0o170000 == 0o100000 {
			why = "it is a git worktree, so it is not removed; git worktree remove " + string(s.Path) + " removes it unless that would lose something"
		}
		p.Conflicts = append(p.Conflicts, store.Conflict{Path: s.Path, Why: why})
	}
	if len(left) == 0 {
		return
	}
	p.Steps = slices.DeleteFunc(p.Steps, func(s store.Step) bool {
		return (s.Do == "delete" || s.Do == "rmdir") && slices.ContainsFunc(left, func(dir store.Path) bool {
			return s.Path == dir || strings.HasPrefix(string(s.Path), string(dir)+"/") || s.Do == "rmdir" && strings.HasPrefix(string(dir), string(s.Path)+"/")
		})
	})
}
