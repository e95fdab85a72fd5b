package keep

import (
	"context"
	"fmt"

	"cachebro/store"
	"cachebro/store/content"
	"cachebro/store/db"
	"cachebro/store/leaf/event"
	"cachebro/store/leaf/limits"
)

// ignoredBudget drops the oldest contents of ignored files above their budget. It measures the
// contents only if the store is large enough to exceed the budget.
func (k *Keeper) ignoredBudget(ctx context.Context, r *Report) error {
	if k.s.Stats().BlobBytes <= k.opt.IgnoredCap {
		return nil
	}
	sizes, err := k.contents.Sizes()
	if err != nil {
		return err
	}
	var seqs []uint64
	var bytes []int64
	sum := int64(0)
	counted := map[uint64]bool{}
	err = k.s.Each(func(v store.Version) bool {
		if v.Class == event.Ignored && v.Blob != (content.Hash{}) {
			n := int64(0)
			if k := content.Short(v.Blob); !counted[k] {
				counted[k] = true
				n = sizes[k]
			}
			seqs, bytes = append(seqs, v.Seq), append(bytes, n)
			sum += n
		}
		return ctx.Err() == nil
	})
	if err != nil || sum <= k.opt.IgnoredCap {
		return err
	}
	goal, n := k.opt.IgnoredCap*9/10, 0
	for n < len(seqs) && sum > goal {
		sum -= bytes[n]
		n++
	}
	if err := k.drop(ctx, seqs[:n], r); err != nil {
		return err
	}
	return k.compact(ctx, db.WasteSome)
}

// trimLog drops the oldest versions without content until the log has at most limits.LogVersions
// records. It keeps the newest version of each path.
func (k *Keeper) trimLog(ctx context.Context, r *Report) error {
	var drop []store.Version
	over := int(k.s.Records() - limits.LogVersions)
	old, err := k.olderThan(k.opt.KeepAge)
	if err != nil {
		return err
	}
	err = k.s.EachUngrouped(func(v store.Version) bool {
		if v.Blob == (content.Hash{}) && old(v.Seq, v.Time) {
			if cur, found, err := k.s.Current(v.Path); err == nil && found && cur.Seq != v.Seq {
				drop = append(drop, v)
			}
		}
		return len(drop) < over && ctx.Err() == nil
	})
	if err != nil {
		return err
	}
	n, err := k.s.DropRecords(ctx, drop)
	r.Records += n
	if err != nil {
		return fmt.Errorf("trim the log: %w", err)
	}
	return nil
}
