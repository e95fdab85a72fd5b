package daemon

import (
	"context"

	"cachebro/store"
	"cachebro/store/wire"
)

// reindex looks at every file that nobody told of and brings the index up to
// what it finds, or makes it anew ("full"). It ends when everything is in, when
// the store takes nothing, or with ctx; what is then left to do the follower does.
func (d *Daemon) reindex(ctx context.Context, do string, p store.Path, facts *wire.IndexFacts) error {
	if do == "forget" && p == "" {
		return wire.Errorf(wire.ErrBadRequest, "cachebro reindex --full makes the whole index anew", "forget needs a path")
	}
	before := d.index.Stats()
	// The follower would index what the look finds in small steps, beside it.
	defer d.index.Hold()()
	missing, err := d.survey.LookAtAll(ctx)
	if err != nil {
		return err
	}
	if do == "full" {
		if err := d.index.Reset(); err != nil {
			return err
		}
		// Again for what came while the first pass ran.
		for range 2 {
			if err := d.index.CatchUp(ctx); err != nil {
				return err
			}
		}
		live := d.index.Stats().Files
		facts.New, facts.Live = live, live
	} else {
		forget := store.Path("")
		if do == "forget" {
			forget = p
		}
		r, err := d.index.Reconcile(ctx, forget)
		if err != nil {
			return err
		}
		changes := d.index.ChangesSince(before.Seq)
		facts.Changed, facts.New, facts.Deleted, facts.Live = r.Changed+changes.Changed, r.New+changes.New, r.Deleted+changes.Deleted, r.Live
	}
	facts.Missing = missing
	return nil
}

// indexProgress is for somebody who watches a reindex.
func (d *Daemon) indexProgress() *wire.IndexProgress {
	b := d.survey.Progress()
	p := &wire.IndexProgress{Looking: b.Running, Looked: b.Files}
	p.Indexed, p.Of = d.index.Progress()
	return p
}
