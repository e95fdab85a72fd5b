package store

import (
	"cmp"
	"context"
	"errors"
	"slices"

	badger "github.com/dgraph-io/badger/v4"
)

// chunk is the number of keys that one step of background work changes while it holds writeMu.
// Apply therefore waits a few milliseconds at most.
const chunk = 200

// References calls add with each content that the log or an open plan refers to. If purged is not nil,
// References leaves out contents that an open plan would write to the paths for which it returns true.
func (s *Store) References(ctx context.Context, purged func(Path) bool, add func(Hash)) error {
	n := 0
	err := s.Each(func(v Version) bool {
		add(v.Blob)
		n++
		return n%1024 != 0 || ctx.Err() == nil
	})
	err = cmp.Or(err, ctx.Err())
	if err != nil {
		return err
	}
	open, err := s.Journal.Open()
	for _, p := range open {
		for _, st := range p.Steps {
			if purged == nil || !purged(st.Path) {
				add(st.Blob)
			}
		}
	}
	return err
}

// Each calls fn with all versions, oldest first, until fn returns false.
func (s *Store) Each(fn func(Version) bool) error { return s.scan(0, fn, pass{}) }

// EachUngrouped is like Each, but skips the versions of groups, which have no records of their own.
func (s *Store) EachUngrouped(fn func(Version) bool) error {
	return s.scan(0, fn, pass{groups: true})
}

// Records returns the number of records in the log. A group has one record for all its versions.
func (s *Store) Records() uint64 {
	groups, versions := s.groups.count()
	return groups + s.Stats().Versions - min(versions, s.Stats().Versions)
}

// Outdated is a version that has content and is not the newest of its path.
type Outdated struct {
	Seq  uint64
	Path Path
	Time int64 // as in Version
	Size int64
	Blob Hash
}

// Superseded calls fn with each version that has content, if at least keep newer versions of its
// path have content too. It never passes the newest version of a path, and stops when fn returns
// false.
func (s *Store) Superseded(ctx context.Context, keep int, fn func(Outdated) bool) error {
	return s.View(func(v *View) error {
		all, ends, err := v.crowded(ctx, keep)
		if err != nil {
			return err
		}
		begin := 0
		for _, end := range ends {
			kept := 0
			for i := end - 1; i >= begin; i-- {
				switch {
				case all[i].Blob == (Hash{}):
				case i == end-1 || kept < keep:
					kept++
				case !fn(all[i]):
					return nil
				}
			}
			begin = end
		}
		return ctx.Err()
	})
}

// crowded returns the versions of all paths that have more than keep versions, grouped by path.
// ends holds the end index of each path's versions. Blob is zero for versions without content.
func (v *View) crowded(ctx context.Context, keep int) (all []Outdated, ends []int, err error) {
	grouped := map[Path][]uint64{}
	for _, g := range v.s.groups.upTo(v.seq) {
		err := v.s.groups.eachIn(v.txn, g, func(o Version) error {
			if o.Seq <= v.seq {
				grouped[o.Path] = append(grouped[o.Path], o.Seq)
			}
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
	}
	it := v.txn.NewIterator(badger.IteratorOptions{Prefix: []byte{kPath}})
	defer it.Close()
	begin := 0
	var at Path
	end := func() {
		for _, seq := range grouped[at] {
			all = append(all, Outdated{Seq: seq, Path: at})
		}
		if len(grouped[at]) > 0 {
			slices.SortFunc(all[begin:], func(a, b Outdated) int { return cmp.Compare(a.Seq, b.Seq) })
			delete(grouped, at)
		}
		if len(all)-begin <= keep {
			all = all[:begin]
		} else {
			ends = append(ends, len(all))
		}
		begin = len(all)
	}
	for it.Rewind(); it.Valid() && ctx.Err() == nil; it.Next() {
		p, seq, ok := parsePathKey(it.Item().Key())
		if !ok || seq > v.seq {
			continue
		}
		if p != at {
			end()
			at = p
		}
		all = append(all, Outdated{Seq: seq, Path: at})
	}
	end()
	for at = range grouped { // the remaining paths have only versions of groups, which have no p keys
		end()
	}
	// Walk through the log once. Looking up each version would take ten times as long.
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(all[a].Seq, all[b].Seq) })
	err = v.scan(0, false, func(o Version) bool {
		for len(order) > 0 && all[order[0]].Seq < o.Seq {
			order = order[1:]
		}
		if len(order) > 0 && all[order[0]].Seq == o.Seq {
			x := &all[order[0]]
			x.Time, x.Size, x.Blob = o.Time, o.Stat.Size, o.Blob
		}
		return len(order) > 0 && ctx.Err() == nil
	}, pass{})
	return all, ends, cmp.Or(err, ctx.Err())
}

// DropContents removes the contents of versions and stores why in their NoContent. It works in
// steps and returns the number of versions done. The caller holds tidyMu.
func (s *Store) DropContents(ctx context.Context, seqs []uint64, why string) (done int, err error) {
	// Go in ascending order, so that each group is rewritten only a few times.
	for part := range slices.Chunk(slices.Sorted(slices.Values(seqs)), chunk) {
		if err := cmp.Or(ctx.Err(), s.dropContents(part, why)); err != nil {
			return done, err
		}
		done += len(part)
	}
	return done, nil
}

func (s *Store) dropContents(seqs []uint64, why string) error {
	return s.write(func(b *batch) error {
		for _, seq := range seqs {
			v, err := b.version(seq)
			if errors.Is(err, ErrNotFound) || err == nil && v.Blob == (Hash{}) {
				continue
			}
			if err != nil {
				return err
			}
			v.Blob, v.NoContent = Hash{}, why
			if err := b.rewrite(v); err != nil {
				return err
			}
		}
		s.nodes.Clear() // a node may refer to a dropped content
		return nil
	})
}

// rewrite replaces a version's record. If the version is the newest of its path, the c key is
// replaced as well.
func (b *batch) rewrite(v Version) error {
	cur, _, err := b.live(v.Path)
	if err != nil {
		return err
	}
	if cur.Seq != v.Seq {
		return b.replace(&v)
	}
	b.changed(v, nil)
	return nil
}

// DropRecords removes versions from the log. None may be the newest of its path. It works in steps
// and returns the number of versions removed. The caller holds tidyMu.
func (s *Store) DropRecords(ctx context.Context, vs []Version) (done int, err error) {
	for part := range slices.Chunk(vs, chunk) {
		if err := cmp.Or(ctx.Err(), s.dropRecords(part)); err != nil {
			return done, err
		}
		done += len(part)
	}
	return done, nil
}

func (s *Store) dropRecords(vs []Version) error {
	return s.write(func(b *batch) error {
		for i := range vs {
			v := &vs[i]
			if err := b.erase(v); err != nil {
				return err
			}
			b.next.Versions--
		}
		return nil
	})
}
