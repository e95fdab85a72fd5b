package plans

import (
	"slices"

	"cachebro/store"
	"cachebro/store/onwire"
	"cachebro/store/undo"
	"cachebro/store/wire"
)

// The changes that a watched command made outside its project are in the user's own history. An
// undo covers them together with the changes in the project, by one plan in each history.

// pairedBucket maps a plan of a project to the plan in this history that was made together
// with it.
const pairedBucket = "beside"

// recordPairing records that a plan was made together with a plan of a project.
func (pl *Plans) recordPairing(q wire.PlanRequest, p *undo.Draft) error {
	if q.ProjectPlan == "" || q.DryRun || q.Kind != store.PlanUndo || len(p.Steps) == 0 {
		return nil
	}
	return pl.Store.KV(pairedBucket).Set(q.ProjectPlan, []byte(p.ID))
}

// pairedPlan returns the plan that was made together with a plan of a project, or "" if none was.
func (pl *Plans) pairedPlan(of string) string {
	b, _, err := pl.Store.KV(pairedBucket).Get(of)
	if err != nil {
		pl.Log.Warn("look up the plan that accompanies another plan", "plan", of, "err", err)
	}
	return string(b)
}

// addAction adds to the answer the action that an undo undoes.
func (pl *Plans) addAction(out *wire.Plan, q wire.PlanRequest, newest store.Version) {
	if q.Kind != store.PlanUndo {
		return
	}
	if q.Action != 0 {
		v, err := pl.Store.Version(q.Action)
		if err != nil {
			return
		}
		newest = v
	}
	if newest.Seq != 0 {
		out.Action = uint64(newest.Seq)
		out.ActionKey, out.ActionEnd = pl.Actions.NewNamer().Key(newest), onwire.Time(newest.Time)
	}
}

// maxSearched bounds how many versions are read to find an action.
const maxSearched = 200_000

// versionOfAction returns the newest version of the action with a key.
func (pl *Plans) versionOfAction(key string) (seq uint64, err error) {
	namer, read := pl.Actions.NewNamer(), 0
	err = pl.Store.View(func(v *store.View) error {
		return v.Each(store.Filter{}, func(o store.Version) bool {
			read++
			if !o.Excluded() && namer.Key(o) == key {
				seq = o.Seq
			}
			return seq == 0 && read < maxSearched
		})
	})
	if err == nil && seq == 0 {
		err = wire.Errorf(wire.ErrNotFound, "", "that action changed nothing in this project")
	}
	return seq, err
}

// ofProject matches the versions made by sessions that worked in a project.
func (pl *Plans) ofProject(root string) func(store.Version) bool {
	known := map[store.SessionID]bool{}
	return func(v store.Version) bool {
		works, ok := known[v.Actor.Session]
		if !ok {
			works = v.Actor.Session != "" && slices.Contains(pl.Places.SessionProjects(string(v.Actor.Session)), root)
			known[v.Actor.Session] = works
		}
		return works
	}
}
