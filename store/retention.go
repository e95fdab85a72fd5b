package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cachebro/store/content"
	"cachebro/store/db"

	badger "github.com/dgraph-io/badger/v4"
)

const (
	// reach is how long an undo is "in reach": what was overwritten since
	// goes only when nothing older is left.
	reach = 24 * time.Hour
	// maxLog is how many versions the log keeps; above it the oldest whose
	// content is gone are dropped.
	maxLog = 500_000
	// tidyEvery is the pause between two looks at age and count.
	tidyEvery = 6 * time.Hour
	// content.PackLeast must be loose for a repack to begin while nothing is
	// written; packMuch how much when the writer does pause, packEven when
	// it does not.
	packMuch = 64 << 20
	packEven = 512 << 20
	// packEvery is the pause between two repacks of little.
	packEvery = 20 * time.Minute
	// worthCompacting is how much must have become free for Badger to be
	// asked to give it back.
	worthCompacting = 64 << 10
)

// Prune drops the contents of versions of which their path has keep newer ones
// (0: Options.Keep) and that are older than Options.KeepAge, and packs the rest.
// The versions stay in the log. It may be cancelled at any time and goes on from there.
func (s *Store) Prune(ctx context.Context, keep int) (Report, error) {
	if keep <= 0 {
		keep = s.opt.Keep
	}
	s.tidyMu.Lock()
	defer s.tidyMu.Unlock()
	r := Report{Before: s.room.Usage(s.opt.Now(), true)}
	err := s.prune(ctx, keep, &r)
	if err == nil {
		err = s.repackInRoom(ctx, false, &r)
	}
	if err == nil {
		err = s.compact(ctx, db.WasteLittle)
	}
	r.After = s.room.Usage(s.opt.Now(), true)
	return r, err
}

func (s *Store) prune(ctx context.Context, keep int, r *Report) error {
	old, err := s.olderThan(s.opt.KeepAge)
	if err != nil {
		return fmt.Errorf("prune: %w", err)
	}
	var drop []uint64
	err = s.superseded(ctx, keep, func(v Version) bool {
		if old(v) && !s.isPinned(v.Blob) {
			drop = append(drop, v.Seq)
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("prune: %w", err)
	}
	return s.drop(ctx, drop, r)
}

// olderThan tells versions of an age. What was recorded while the clock stood far
// behind is not older than the versions before it.
func (s *Store) olderThan(age time.Duration) (func(Version) bool, error) {
	t := s.opt.Now().Add(-age)
	at, err := s.SeqAt(t)
	return func(v Version) bool { return v.Seq <= at && v.Time < t.UnixNano() }, err
}

// compact gives the file system back what was deleted. tidyMu is held.
func (s *Store) compact(ctx context.Context, waste float64) error {
	err := s.db.Compact(ctx, waste)
	s.room.Usage(s.opt.Now(), true)
	return err
}

func (s *Store) isPinned(h Hash) bool {
	s.writeMu.Lock()
	fn := s.pinned
	s.writeMu.Unlock()
	return fn != nil && fn(h)
}

// drop takes contents off versions and sweeps. tidyMu is held.
func (s *Store) drop(ctx context.Context, seqs []uint64, r *Report) error {
	for len(seqs) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(len(seqs), chunk)
		if err := s.dropContents(seqs[:n], "pruned"); err != nil {
			return fmt.Errorf("prune: %w", err)
		}
		r.Versions += n
		seqs = seqs[n:]
	}
	swept, err := s.sweep(ctx, content.WasteShared)
	r.add(swept)
	return err
}

var errEnough = errors.New("enough")

// superseded passes, path by path, the versions with content that have keep
// newer ones of the same path with content; never the newest of a live path.
func (s *Store) superseded(ctx context.Context, keep int, fn func(Version) bool) error {
	newest := s.Seq()
	return s.view(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{kPath}})
		defer it.Close()
		var at Path
		var seqs []uint64
		end := func() error {
			if len(seqs) <= keep {
				return nil
			}
			kept := 0
			for i := len(seqs) - 1; i >= 0; i-- {
				v, err := s.versionIn(txn, seqs[i])
				if err != nil || v.Blob == (Hash{}) {
					continue
				}
				if i == len(seqs)-1 || kept < keep {
					kept++
					continue
				}
				if !fn(v) {
					return errEnough
				}
			}
			return ctx.Err()
		}
		for it.Rewind(); it.Valid(); it.Next() {
			p, seq, ok := parsePathKey(it.Item().Key())
			if !ok || seq > newest {
				continue
			}
			if p != at {
				if err := end(); err != nil {
					return err
				}
				at, seqs = p, seqs[:0]
			}
			seqs = append(seqs, seq)
		}
		if err := end(); err != errEnough {
			return err
		}
		return nil
	})
}

// Collect keeps the store within its limits, in this order: the free-space
// floor, the cap, the budget of ignored files, age and count. Cheap when there
// is nothing to do; meant to be called every minute or so.
func (s *Store) Collect(ctx context.Context) (Report, error) {
	s.tidyMu.Lock()
	defer s.tidyMu.Unlock()
	now := s.opt.Now()
	used := s.room.Usage(now, false)
	r := Report{Before: used, After: used}
	free, total, err := s.room.Free()
	if err != nil {
		return r, err
	}
	need := int64(0)
	if floor := s.room.Floor(total); free < floor+floor/16 {
		need = floor + floor/8 - free
	}
	limit := s.opt.Cap
	if s.opt.Allowed != nil {
		limit = s.opt.Allowed(used)
	}
	if used > limit && !s.shrunken.still(now, s.Seq()) {
		need = max(need, used-limit*9/10)
	}
	due := now.Sub(s.tidied) > tidyEvery || now.Before(s.tidied)
	if due {
		s.tidied = now
		err = s.trimTimed()
	}
	switch {
	case err != nil:
	case need > 0:
		if err = s.shrink(ctx, need, &r); err == nil && r.Blobs+r.Packed == 0 && s.room.Usage(s.opt.Now(), true) > limit {
			s.shrunken = shrunken{at: now, seq: s.Seq()}
		}
	case due && used > limit/2:
		if err = s.prune(ctx, s.opt.Keep, &r); err == nil && r.Blobs > 0 {
			err = s.compact(ctx, db.WasteSome)
		}
	}
	if err == nil {
		err = s.ignoredBudget(ctx, &r)
	}
	if err == nil {
		if err = s.contents.Settle(ctx, due, now, &r.Report); err == nil && due && r.Loosened >= worthCompacting {
			err = s.compact(ctx, db.WasteSome)
		}
	}
	if err == nil && s.packDue(now) {
		s.packed = now
		if err = s.repackInRoom(ctx, true, &r); err == nil && r.Loosened >= worthCompacting {
			err = s.compact(ctx, db.WasteSome)
		}
	}
	if err == nil && s.Stats().Versions > maxLog {
		err = s.trimLog(ctx, maxLog, &r)
	}
	if r.Blobs+r.Records+r.Packed > 0 {
		r.After = s.room.Usage(s.opt.Now(), true)
	}
	return r, err
}

// shrunken notes a collection that could not get the store below its limit:
// nothing was left to drop. The next one has to wait, or it would look through
// everything each minute for nothing.
type shrunken struct {
	at  time.Time
	seq uint64 // the newest version then
}

const (
	// shrinkAgain is the pause when something was stored since, shrinkAnew
	// when nothing was.
	shrinkAgain = 10 * time.Minute
	shrinkAnew  = 6 * time.Hour
)

func (t shrunken) still(now time.Time, seq uint64) bool {
	pause := shrinkAgain
	if seq == t.seq {
		pause = shrinkAnew
	}
	past := now.Sub(t.at)
	return !t.at.IsZero() && past >= 0 && past < pause
}

// shrink frees need bytes: by packing, which costs no content, then by age and
// count, then what was superseded,
// oldest first and without regard to age and count, then what an undo in reach
// would need, last what a live session's diff is based on. What paths hold now
// is never taken.
func (s *Store) shrink(ctx context.Context, need int64, r *Report) error {
	goal := r.Before - need
	if st := s.state.Load(); st.Loose >= content.PackLeast && st.Loose >= st.RawBytes/8 {
		if err := s.repackInRoom(ctx, false, r); err != nil {
			return err
		}
		if err := s.compact(ctx, db.WasteSome); err != nil {
			return err
		}
	}
	unreached, err := s.olderThan(reach)
	if err != nil {
		return err
	}
	rounds := []func(Version) bool{
		nil, // prune
		func(v Version) bool { return unreached(v) && !s.isPinned(v.Blob) },
		func(v Version) bool { return !s.isPinned(v.Blob) },
		func(Version) bool { return true },
	}
	for i, may := range rounds {
		for {
			used := s.room.Usage(s.opt.Now(), true)
			if used <= goal {
				return nil
			}
			before := r.Blobs
			var err error
			if i == 0 {
				err = s.prune(ctx, s.opt.Keep, r)
			} else {
				err = s.dropOldest(ctx, used-goal, may, r)
			}
			if err != nil {
				return err
			}
			if r.Blobs == before {
				break
			}
			if err := s.compact(ctx, db.WasteSome); err != nil {
				return err
			}
			if i == 0 {
				break
			}
		}
	}
	return nil
}

// dropOldest drops superseded contents, oldest first, until about need bytes
// are free.
func (s *Store) dropOldest(ctx context.Context, need int64, may func(Version) bool, r *Report) error {
	var drop []uint64
	sizes, err := s.contents.Sizes()
	if err != nil {
		return err
	}
	// A path's newest version stays; so does a content that is also the
	// newest of another path.
	keep, err := s.liveHashes()
	if err != nil {
		return err
	}
	freed := int64(0)
	counted := map[uint64]bool{}
	err = s.scan(0, false, func(v Version) bool {
		if v.Blob != (Hash{}) && !keep.Has(v.Blob) && may(v) {
			drop = append(drop, v.Seq)
			if k := content.Short(v.Blob); !counted[k] {
				counted[k] = true
				freed += sizes[k]
			}
		}
		return freed < need+need/8 && ctx.Err() == nil
	}, nil)
	if err != nil {
		return err
	}
	return s.drop(ctx, drop, r)
}

// packDue decides whether Collect repacks. tidyMu is held.
func (s *Store) packDue(now time.Time) bool {
	loose := s.state.Load().Loose
	quiet := now.Sub(time.Unix(0, s.applied.Load()))
	switch {
	case loose >= packEven:
		return true
	case loose >= packMuch:
		return quiet > 20*time.Second
	}
	return loose >= content.PackLeast && quiet > 2*time.Minute && (now.Sub(s.packed) > packEvery || now.Before(s.packed))
}

// repackInRoom packs, except that a full disk is no error: then contents
// have to be dropped first.
func (s *Store) repackInRoom(ctx context.Context, gentle bool, r *Report) error {
	err := s.contents.Repack(ctx, gentle, &r.Report)
	if errors.Is(err, ErrNoSpace) {
		return nil
	}
	return err
}
