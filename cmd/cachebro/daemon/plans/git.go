package plans

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"cachebro/cmd/cachebro/daemon/attribution"
	"cachebro/cmd/cachebro/daemon/gitstate"
	"cachebro/cmd/cachebro/daemon/ingest"
	"cachebro/cmd/cachebro/daemon/versions"
	"cachebro/store"
	"cachebro/store/leaf/gitdir"
	"cachebro/store/undo"
	"cachebro/store/wire"
)

// planGit plans how to undo changes of git's own files. The plan is not journalled. If its client
// is killed, the next request plans the rest.
func (pl *Plans) planGit(ctx context.Context, r *wire.Request, q wire.PlanRequest) (any, []byte, error) {
	if q.Prompt == "last" {
		q.Asker = string(pl.Attribution.Asker(r.Peer.PID))
	}
	out, err := pl.gitPlan(ctx, q)
	if err == nil && !q.DryRun && len(out.Steps) > 0 {
		now := time.Now().UnixNano()
		pl.Attribution.BeginPlan(fmt.Sprintf("git undo-%x", now), attribution.OwnerOf(r.Peer.PID), now)
	}
	return out, nil, err
}

// gitLost lists lost commits, after the newest changes were ingested.
func (pl *Plans) gitLost(ctx context.Context, _ wire.Empty) (out wire.GitLost, _ []byte, err error) {
	_, err = pl.Ingest.CaughtUp(ctx, ingest.PlanWait, ingest.PlanStill)
	if err == nil {
		out, err = pl.Git.Lost(ctx)
	}
	return out, nil, err
}

func (pl *Plans) gitPlan(ctx context.Context, q wire.PlanRequest) (out wire.GitPlan, err error) {
	whole, err := pl.Ingest.CaughtUp(ctx, ingest.PlanWait, ingest.PlanStill)
	if err != nil {
		return out, err
	}
	if !whole {
		return out, wire.Errorf(wire.ErrConflict, "cachebro status", "%s", pl.Ingest.Behind())
	}
	sel, err := pl.gitSelection(ctx, q)
	if err != nil {
		return out, err
	}
	out, err = pl.Git.Plan(ctx, sel)
	out.Session, out.Prompt = string(sel.Filter.Session), sel.Filter.Prompt
	return out, err
}

func (pl *Plans) gitSelection(ctx context.Context, q wire.PlanRequest) (sel gitstate.Selection, err error) {
	switch {
	case q.GitOp != 0:
		return gitstate.Selection{ID: q.GitOp}, nil
	case q.Last:
		return gitstate.Selection{Last: true, Before: q.GitBefore}, nil
	case q.Prompt == "last":
		session, err := versions.Session(pl.Store, q.Session)
		if err != nil {
			return sel, err
		}
		by, at, err := pl.Git.LastActor(ctx, func(a store.Actor) bool { return a.Prompt != "" && (session == "" || a.Session == session) })
		if err != nil {
			return sel, err
		}
		files, ferr := versions.Prompt(pl.Store, "undo", store.SessionID(q.Asker), session, q.Prompt)
		if !at.IsZero() && (ferr != nil || pl.changedLast(store.Filter{Prompt: files}).Before(at)) {
			q.Prompt = by.Prompt
		} else if ferr != nil {
			return sel, ferr
		}
	case q.Session == "last":
		by, at, err := pl.Git.LastActor(ctx, func(a store.Actor) bool { return a.Session != "" })
		if err != nil {
			return sel, err
		}
		files, ferr := versions.Session(pl.Store, q.Session)
		if !at.IsZero() && (ferr != nil || pl.changedLast(store.Filter{Session: files}).Before(at)) {
			q.Session = string(by.Session)
		} else if ferr != nil {
			return sel, ferr
		}
	}
	return pl.gitSelectionOf(q)
}

// gitSelectionOf selects the changes of git's own files that correspond to a request: those of the
// same action or, if the request names no action, those of the same actor.
func (pl *Plans) gitSelectionOf(q wire.PlanRequest) (sel gitstate.Selection, err error) {
	if q.Action != 0 {
		v, err := pl.Store.Version(q.Action)
		if err != nil {
			return sel, wire.Errorf(wire.ErrNotFound, "cachebro log shows the numbers", "%d is not a change", q.Action)
		}
		sel.Key = pl.Actions.NewNamer().Key(v)
		return sel, nil
	}
	uq, err := pl.undoQuery(q)
	sel.Filter = uq.Select
	return sel, err
}

// changedLast returns when a prompt or session last changed a file, or zero if it never did.
func (pl *Plans) changedLast(by store.Filter) (at time.Time) {
	by.Limit = 1
	all, _, err := pl.Store.Log(by)
	if err == nil && len(all) > 0 {
		at = all[0].When()
	}
	return at
}

// dropRestored removes from a plan's lost paths the git directories that an undo of git's own files
// has restored since. The log has only their removal.
func (pl *Plans) dropRestored(ctx context.Context, p *undo.Draft) {
	p.Lost = slices.DeleteFunc(p.Lost, func(x store.Conflict) bool {
		_, rest, git := gitdir.Split(string(x.Path))
		return git && rest == "" && pl.Git.Restored(ctx, string(x.Path))
	})
}

// addGitChanges adds to a plan the changes that the same actor made to git's own files.
func (pl *Plans) addGitChanges(ctx context.Context, out *wire.Plan, q wire.PlanRequest, newest store.Version) {
	if q.Kind != store.PlanUndo || len(q.Paths) > 0 || len(q.Edits) > 0 {
		return
	}
	q.Action = cmp.Or(newest.Seq, q.Action)
	sel, err := pl.gitSelectionOf(q)
	if err != nil {
		return // the changes are those of another tree
	}
	out.Git, err = pl.Git.Text(ctx, sel)
	if err != nil {
		pl.Log.Warn("look up the changes of git's own files", "err", err)
	}
}
