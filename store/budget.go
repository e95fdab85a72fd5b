package store

import (
	"context"
	"fmt"
	"slices"

	"cachebro/store/content"
	"cachebro/store/db"

	badger "github.com/dgraph-io/badger/v4"
)

// liveHashes are the contents that paths hold now.
func (s *Store) liveHashes() (content.Set, error) {
	return content.NewSet(func(add func(Hash)) error {
		return s.Live("", func(v Version) error { add(v.Blob); return nil })
	})
}

// ignoredBudget drops the oldest contents of ignored files above their budget.
// It looks only when the store has grown to where they could be above it.
func (s *Store) ignoredBudget(ctx context.Context, r *Report) error {
	if s.Stats().BlobBytes <= s.opt.IgnoredCap {
		return nil
	}
	sizes, err := s.contents.Sizes()
	if err != nil {
		return err
	}
	var seqs []uint64
	var bytes []int64
	sum := int64(0)
	counted := map[uint64]bool{}
	err = s.scan(0, false, func(v Version) bool {
		if v.Class == 1 && v.Blob != (Hash{}) {
			n := int64(0)
			if k := content.Short(v.Blob); !counted[k] {
				counted[k] = true
				n = sizes[k]
			}
			seqs, bytes, sum = append(seqs, v.Seq), append(bytes, n), sum+n
		}
		return ctx.Err() == nil
	}, nil)
	if err != nil || sum <= s.opt.IgnoredCap {
		return err
	}
	goal, n := s.opt.IgnoredCap*9/10, 0
	for n < len(seqs) && sum > goal {
		sum -= bytes[n]
		n++
	}
	if err := s.drop(ctx, seqs[:n], r); err != nil {
		return err
	}
	return s.compact(ctx, db.WasteSome)
}

// trimLog drops the oldest versions that have no content any more and are not
// the newest of their path, until most are left.
func (s *Store) trimLog(ctx context.Context, most uint64, r *Report) error {
	var drop []Version
	over := int(s.Stats().Versions - most)
	old, err := s.olderThan(s.opt.KeepAge)
	if err != nil {
		return err
	}
	err = s.scan(0, false, func(v Version) bool {
		if v.Blob == (Hash{}) && old(v) {
			if cur, found, err := s.Current(v.Path); err == nil && found && cur.Seq != v.Seq {
				drop = append(drop, v)
			}
		}
		return len(drop) < over && ctx.Err() == nil
	}, nil)
	if err != nil {
		return err
	}
	for part := range slices.Chunk(drop, chunk) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.dropRecords(part); err != nil {
			return fmt.Errorf("trim the log: %w", err)
		}
		r.Records += len(part)
	}
	return nil
}

func (s *Store) dropRecords(vs []Version) error {
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	if s.db.Closed() {
		return ErrClosed
	}
	b := s.newBatch()
	defer b.discard()
	for i := range vs {
		v := &vs[i]
		for _, k := range append(indexes(v), keyPath(v.Path, v.Seq), keyVersion(v.Seq)) {
			if err := b.w.Del(k); err != nil {
				return err
			}
		}
		b.next.Versions--
		b.next.Oldest = max(b.next.Oldest, v.Seq)
	}
	return b.commit()
}

// trimTimed drops the oldest gaps and notices above maxTimed.
func (s *Store) trimTimed() error {
	for _, prefix := range []byte{kGap, kNotice} {
		var keys [][]byte
		err := s.view(func(txn *badger.Txn) error {
			it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{prefix}})
			defer it.Close()
			for it.Rewind(); it.Valid(); it.Next() {
				keys = append(keys, it.Item().KeyCopy(nil))
			}
			return nil
		})
		if err != nil {
			return err
		}
		for part := range slices.Chunk(keys[:max(0, len(keys)-maxTimed)], chunk) {
			err := s.update(func(txn *badger.Txn) error {
				for _, k := range part {
					if err := txn.Delete(k); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}
