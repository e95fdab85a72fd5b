package find

import (
	"context"

	"cachebro/store"
	"cachebro/store/wire"
)

// reindex checks every file and updates the index, or rebuilds it if do is "full". It returns when
// everything is indexed. It returns earlier when the store accepts no more versions or ctx ends.
// The rest is then indexed in the background.
func (f *Finder) reindex(ctx context.Context, do string, p store.Path, facts *wire.IndexFacts) error {
	if do == "forget" && p == "" {
		return wire.Errorf(wire.ErrBadRequest, "cachebro store reindex --full rebuilds the whole index", "forget needs a path")
	}
	before := f.Index.Stats()
	// Suspend the indexing in the background, which would index the same changes at the same time, in
	// small steps.
	defer f.Index.Suspend()()
	missing, err := f.Survey.LookAtAll(ctx)
	if err != nil {
		return err
	}
	if do == "full" {
		if err := f.Index.Reset(); err != nil {
			return err
		}
		// Catch up twice, because files may change during the first pass.
		for range 2 {
			if err := f.Index.CatchUp(ctx); err != nil {
				return err
			}
		}
		live := f.Index.Stats().Files
		facts.New, facts.Live = live, live
	} else {
		forget := store.Path("")
		if do == "forget" {
			forget = p
		}
		r, err := f.Index.Reconcile(ctx, forget)
		if err != nil {
			return err
		}
		changes := f.Index.ChangesSince(before.Seq)
		facts.Changed = r.Changed + changes.Changed
		facts.New = r.New + changes.New
		facts.Deleted = r.Deleted + changes.Deleted
		facts.Live = r.Live
	}
	facts.Missing = missing
	return nil
}

// indexProgress returns the progress of a reindex, for a client that waits for it.
func (f *Finder) indexProgress() *wire.IndexProgress {
	b := f.Survey.Progress()
	p := &wire.IndexProgress{Looking: b.Running, Looked: b.Files}
	p.Indexed, p.Of = f.Index.Progress()
	return p
}
