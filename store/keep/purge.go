package keep

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"cachebro/store"
	"cachebro/store/content"
	"cachebro/store/db"
)

// Purged describes what Purge did, and which copies it could not remove.
type Purged struct {
	Versions int
	Blobs    int
	Bytes    int64
	// Spooled is the number of bytes overwritten in the spool.
	Spooled int64
	// Waste is the number of unreferenced bytes removed from pack files.
	Waste int64
	// Elsewhere lists other paths that have or had the same contents. Purge does not remove these.
	Elsewhere []store.Path
	// Siblings are the stores of other worktrees with the same contents in their pack files. Others
	// are the remaining stores, whose databases may have the contents.
	Siblings, Others []content.Sibling
	// Unreached describes places that may still hold the content.
	Unreached []string
}

// Purge removes from the store the contents of all versions of a path and its subtree, including
// the newest, also if an unfinished plan would write them there. Deltas against them are stored again
// without them, and the files that held them are rewritten. The versions stay in the log without
// content. The stores of siblings are not changed. This store then never adopts a pack file again,
// because the file could bring the content back.
func (k *Keeper) Purge(ctx context.Context, path store.Path) (Purged, error) {
	k.contents.Lock()
	defer k.contents.Unlock()
	var p Purged
	var seqs []uint64
	mine := map[content.Hash]bool{}
	again := false // an interrupted earlier purge may exist; this call completes it
	err := k.s.Each(func(v store.Version) bool {
		switch {
		case !v.Path.Inside(path):
		case v.Blob != (content.Hash{}):
			seqs = append(seqs, v.Seq)
			mine[v.Blob] = true
		case v.NoContent == store.NoContentPurged:
			again = true
		}
		return ctx.Err() == nil
	})
	err = cmp.Or(err, ctx.Err())
	if err != nil {
		return p, err
	}
	if len(seqs) == 0 && !again {
		// Pack files adopted from siblings may hold the content although no version here refers to
		// it.
		p.Waste, err = k.contents.PurgeWaste(ctx)
		if p.Waste > 0 || err != nil {
			return p, err
		}
		return p, fmt.Errorf("no content of %q is stored: %w", string(path), store.ErrNotFound)
	}
	if err := k.s.Each(func(v store.Version) bool {
		if mine[v.Blob] && !v.Path.Inside(path) && !slices.Contains(p.Elsewhere, v.Path) {
			p.Elsewhere = append(p.Elsewhere, v.Path)
		}
		return ctx.Err() == nil
	}); err != nil {
		return p, err
	}
	open, err := k.s.Journal.Open()
	if err != nil {
		return p, err
	}
	for _, plan := range open {
		for _, st := range plan.Steps {
			if mine[st.Blob] && !st.Path.Inside(path) && !slices.Contains(p.Elsewhere, st.Path) {
				p.Elsewhere = append(p.Elsewhere, st.Path)
			}
		}
	}
	if err := k.contents.StandAlone(); err != nil {
		return p, err
	}
	p.Versions, err = k.s.DropContents(ctx, seqs, store.NoContentPurged)
	if err != nil {
		return p, fmt.Errorf("purge: %w", err)
	}
	inPath := func(p store.Path) bool { return p.Inside(path) }
	r, err := k.sweep(ctx, content.WasteAny, inPath) // no frame may hold a byte of the content
	p.Blobs, p.Bytes = r.Blobs, r.Bytes
	if err == nil {
		p.Waste, err = k.contents.PurgeWaste(ctx)
	}
	if err == nil {
		err = k.compact(ctx, db.WasteNone)
	}
	if err != nil {
		return p, fmt.Errorf("purge: %w", err)
	}
	p.Siblings, p.Others = k.contents.HeldElsewhere(ctx, mine)
	p.Unreached = append(p.Unreached,
		"blocks that the file system or an SSD has freed but not overwritten yet",
		"backups and snapshots of the state directory",
		"the file itself and git's copies of it, which are only in the project")
	if len(p.Elsewhere) > 0 {
		p.Unreached = append(p.Unreached, fmt.Sprintf("%d other paths with the same content", len(p.Elsewhere)))
	}
	return p, nil
}
