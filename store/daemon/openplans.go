package daemon

import (
	"context"
	"slices"

	"cachebro/store"
	"cachebro/store/daemon/attribution"
	"cachebro/store/daemon/ingest"
	"cachebro/store/undo"
	"cachebro/store/wire"
)

// What a client may ask for of a plan that another one left half-done.
const (
	resumeKind   = "resume"
	rollbackKind = "rollback"
)

// openPlans names the plans that were begun by a process that is no more. The
// daemon writes nothing into the project, so a client has to end them.
func (d *Daemon) openPlans(ctx context.Context, _ wire.Empty) (wire.OpenPlans, []byte, error) {
	whole, err := d.ingest.CaughtUp(ctx, ingest.PlanWait, ingest.PlanStill)
	if err != nil {
		return wire.OpenPlans{}, nil, err
	}
	heads, err := d.store.Plans()
	if err != nil {
		return wire.OpenPlans{}, nil, err
	}
	here, err := d.treeHere(ctx)
	if err != nil {
		return wire.OpenPlans{}, nil, err
	}
	var out wire.OpenPlans
	for i := range heads {
		id := heads[i].ID
		if heads[i].Finished != 0 || d.underWay(id) {
			continue
		}
		begun, err := d.hasBegun(id)
		if err == nil && heads[i].Tree != here {
			d.log.Warn("a plan that was begun for another directory is not gone on with", "plan", id)
			if err := d.store.FinishPlan(id, []store.Conflict{{Why: elsewhere}}); err != nil {
				return out, nil, err
			}
			continue
		}
		switch {
		case err != nil:
			return out, nil, err
		case begun || !whole: // in doubt, too
			out.Plans = append(out.Plans, planOut(&heads[i]))
		default:
			// Its client went away while it asked: nobody has agreed to it.
			if err := d.store.FinishPlan(id, nil); err != nil {
				return out, nil, err
			}
		}
	}
	slices.Reverse(out.Plans)
	return out, nil, nil
}

const elsewhere = "it was begun for another directory than this"

// treeHere is the directory that plans are for. Its time of birth, in nanoseconds, is
// what nobody elsewhere knows who makes up a state directory.
func (d *Daemon) treeHere(ctx context.Context) (store.Tree, error) {
	st, err := d.source.Lstat(ctx, "")
	return store.Tree{Ino: st.Ino, Birth: st.Birth}, err
}

// hasBegun: something of a plan was carried out.
func (d *Daemon) hasBegun(id string) (bool, error) {
	vs, _, err := d.store.Log(store.Filter{Plan: id, Baselines: true, Limit: 1})
	if err != nil || len(vs) > 0 {
		return true, err
	}
	p, err := d.store.LookupPlan(id)
	return len(p.Done) > 0, err
}

// underWay: the process that carries a plan out is alive.
func (d *Daemon) underWay(id string) bool {
	owner, ok := d.attribution.CarrierOf(id)
	return ok && attribution.Alive(int(owner.PID), owner.Start)
}

// leftOpen finds a plan that may be resumed or rolled back.
func (d *Daemon) leftOpen(ctx context.Context, id string) (store.Plan, error) {
	p, err := d.store.LookupPlan(id)
	if err != nil {
		return p, err
	}
	here, err := d.treeHere(ctx)
	switch {
	case err != nil:
		return p, err
	case p.Tree != here:
		return p, wire.Errorf(wire.ErrConflict, "", "plan %s: %s", id, elsewhere)
	case p.Finished != 0:
		return p, wire.Errorf(wire.ErrConflict, "cachebro log", "plan %s has ended", id)
	case d.underWay(id):
		owner, _ := d.attribution.CarrierOf(id)
		return p, wire.Errorf(wire.ErrConflict, "wait for it, or end it", "process %d is still carrying out plan %s", owner.PID, id)
	}
	return p, nil
}

// resumePlan hands a half-done plan to another client.
func (d *Daemon) resumePlan(ctx context.Context, id string, pid int) (any, []byte, error) {
	p, err := d.leftOpen(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	d.carriedBy(&undo.Draft{Plan: p}, pid)
	out := planOut(&p)
	out.Resume, out.Done = true, p.Done
	return out, nil, nil
}

// rolledBack ends the half-done plan that a plan has taken back.
func (d *Daemon) rolledBack(id string) error {
	p, err := d.store.PlanHead(id)
	if err != nil || p.Of == "" {
		return err
	}
	of, err := d.store.PlanHead(p.Of)
	if err != nil || of.Finished != 0 {
		return err
	}
	d.attribution.EndPlan(of.ID, d.now())
	return d.store.FinishPlan(of.ID, []store.Conflict{{Why: "it was left half-done and rolled back"}})
}
