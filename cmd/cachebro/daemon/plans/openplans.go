package plans

import (
	"context"
	"slices"
	"time"

	"cachebro/cmd/cachebro/daemon/attribution"
	"cachebro/cmd/cachebro/daemon/ingest"
	"cachebro/store"
	"cachebro/store/undo"
	"cachebro/store/wire"
)

// The requests about a plan that another client left unfinished.
const (
	resumeKind   = "resume"
	rollbackKind = "rollback"
)

// openPlans lists the unfinished plans whose process has ended. A client must finish them, because
// the daemon does not write into the project.
func (pl *Plans) openPlans(ctx context.Context, _ wire.Empty) (wire.OpenPlans, []byte, error) {
	whole, err := pl.Ingest.CaughtUp(ctx, ingest.PlanWait, ingest.PlanStill)
	if err != nil {
		return wire.OpenPlans{}, nil, err
	}
	heads, err := pl.Store.Journal.Plans()
	if err != nil {
		return wire.OpenPlans{}, nil, err
	}
	here, err := pl.treeHere(ctx)
	if err != nil {
		return wire.OpenPlans{}, nil, err
	}
	var out wire.OpenPlans
	for i := range heads {
		id := heads[i].ID
		if heads[i].Finished != 0 || pl.underWay(id) {
			continue
		}
		begun, err := pl.hasBegun(id)
		if err == nil && heads[i].Tree != here {
			pl.Log.Warn("a plan that was started for another directory is not continued", "plan", id)
			if err := pl.Store.Journal.Finish(id, []store.Conflict{{Why: wrongDirectory}}); err != nil {
				return out, nil, err
			}
			continue
		}
		switch {
		case err != nil:
			return out, nil, err
		case begun || !whole: // if the log is behind, the plan may have begun
			out.Plans = append(out.Plans, planOut(&heads[i]))
		default:
			// The client ended before a person agreed to the plan, so nothing was done.
			if err := pl.Store.Journal.Finish(id, nil); err != nil {
				return out, nil, err
			}
		}
	}
	slices.Reverse(out.Plans)
	return out, nil, nil
}

const wrongDirectory = "it was started for a different directory"

// treeHere returns the identity of the directory that plans are for. It includes the directory's
// time of birth in nanoseconds, which a forged state directory cannot contain.
func (pl *Plans) treeHere(ctx context.Context) (store.Tree, error) {
	st, err := pl.Source.Lstat(ctx, "")
	return store.Tree{Ino: st.Ino, Birth: st.Birth}, err
}

func (pl *Plans) hasBegun(id string) (bool, error) {
	vs, _, err := pl.Store.Log(store.Filter{Plan: id, Baselines: true, Limit: 1})
	if err != nil || len(vs) > 0 {
		return true, err
	}
	p, err := pl.Store.Journal.Plan(id)
	return len(p.Done) > 0, err
}

// underWay reports whether the process that carries out a plan is alive.
func (pl *Plans) underWay(id string) bool {
	owner, ok := pl.Attribution.CarrierOf(id)
	return ok && attribution.Alive(int(owner.PID), owner.Start)
}

// leftOpen returns an unfinished plan that may be resumed or rolled back, or an error that says why
// it may not.
func (pl *Plans) leftOpen(ctx context.Context, id string) (store.Plan, error) {
	p, err := pl.Store.Journal.Plan(id)
	if err != nil {
		return p, err
	}
	here, err := pl.treeHere(ctx)
	switch {
	case err != nil:
		return p, err
	case p.Tree != here:
		return p, wire.Errorf(wire.ErrConflict, "", "plan %s: %s", id, wrongDirectory)
	case p.Finished != 0:
		return p, wire.Errorf(wire.ErrConflict, "cachebro log", "plan %s has ended", id)
	case pl.underWay(id):
		owner, _ := pl.Attribution.CarrierOf(id)
		return p, wire.Errorf(wire.ErrConflict, "wait for it, or end it", "plan %s is still being carried out by process %d", id, owner.PID)
	}
	return p, nil
}

// resumePlan hands an unfinished plan to another client.
func (pl *Plans) resumePlan(ctx context.Context, id string, pid int) (any, []byte, error) {
	p, err := pl.leftOpen(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	if err := pl.noteMoves(&p); err != nil {
		return nil, nil, err
	}
	pl.attributeTo(&undo.Draft{Plan: p}, pid)
	out := planOut(&p)
	out.Resume, out.Done = true, p.Done
	return out, nil, nil
}

// noteMoves completes the list of the finished steps of an unfinished plan. The killed client may
// have moved or removed a name without reporting it. The log shows these steps, but the files may
// not, because later steps may have used the same names.
func (pl *Plans) noteMoves(p *store.Plan) error {
	type move struct {
		op       store.Op
		from, to store.Path
	}
	done := map[move]int{} // how many times the log shows a move
	err := pl.Store.View(func(v *store.View) error {
		return v.Each(store.Filter{Plan: p.ID, Oldest: true}, func(v store.Version) bool {
			switch v.Op {
			case store.OpRename, store.OpExchange:
				done[move{v.Op, v.From, v.Path}]++
			case store.OpUnlink, store.OpRmdir:
				done[move{op: v.Op, from: v.Path}]++
			}
			return true
		})
	})
	if err != nil {
		return err
	}
	ops := map[string]store.Op{store.DoRename: store.OpRename, store.DoExchange: store.OpExchange, store.DoDelete: store.OpUnlink, store.DoRmdir: store.OpRmdir}
	reported := make(map[int]bool, len(p.Done))
	for _, n := range p.Done {
		reported[n] = true
	}
	var missing []int
	for _, s := range p.Steps {
		m := move{ops[s.Do], s.Path, s.To}
		if done[m] == 0 {
			continue
		}
		done[m]--
		if !reported[s.N] {
			missing = append(missing, s.N)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	p.Done = append(p.Done, missing...)
	return pl.Store.Journal.Done(p.ID, missing...)
}

// rolledBack ends the unfinished plan that was undone by the rollback plan id.
func (pl *Plans) rolledBack(id string) error {
	p, err := pl.Store.Journal.Head(id)
	if err != nil || p.Of == "" {
		return err
	}
	of, err := pl.Store.Journal.Head(p.Of)
	if err != nil || of.Finished != 0 {
		return err
	}
	pl.Attribution.EndPlan(of.ID, time.Now().UnixNano())
	return pl.Store.Journal.Finish(of.ID, []store.Conflict{{Why: "it was left unfinished and then rolled back"}})
}
