package keep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"time"

	"cachebro/store"
	"cachebro/store/content"
	"cachebro/store/db"
	"cachebro/store/leaf/limits"
)

const (
	// reach is how long contents are protected for an undo. Contents overwritten within this time
	// are dropped only after all older ones.
	reach = 24 * time.Hour
	// tidyEvery is the interval of the checks of age and count.
	tidyEvery = 6 * time.Hour
	// A content is loose until it is packed. A repack begins above content.PackLeast loose bytes if
	// nothing is being written. It begins above packMuch when the writer pauses, and above packEven
	// even during writes.
	packMuch = 64 << 20
	packEven = 512 << 20
	// packQuiet is the time without writes before a small repack. An idle daemon does not exit
	// before this time has passed.
	packQuiet = time.Minute
	// packEvery is the shortest interval of small repacks.
	packEvery = 20 * time.Minute
	// worthCompacting is the number of freed bytes that makes compacting Badger worthwhile.
	worthCompacting = 64 << 10
)

// ErrOtherPlan means that the versions to be dropped are not the planned ones.
var ErrOtherPlan = errors.New("the set of versions to drop has changed")

// Prune drops the contents of versions that are older than Options.KeepAge and have at least keep
// newer versions of the same path. If keep is 0, Options.Keep applies. Prune also packs the
// remaining contents. The versions stay in the log. Prune may be cancelled at any time; the next
// call continues. planned, if not "", is the Digest of the set of versions to drop. If the set is
// now different, Prune returns ErrOtherPlan and does nothing.
func (k *Keeper) Prune(ctx context.Context, keep int, planned string) (Report, error) {
	k.contents.Lock()
	defer k.contents.Unlock()
	r := Report{Before: k.room.Usage(k.opt.Now(), true)}
	err := k.prune(ctx, keep, planned, &r)
	if err == nil {
		err = k.repackInRoom(ctx, false, &r)
	}
	if err == nil {
		err = k.compact(ctx, db.WasteLittle)
	}
	r.After = k.room.Usage(k.opt.Now(), true)
	return r, err
}

func (k *Keeper) prune(ctx context.Context, keep int, planned string, r *Report) error {
	d, err := k.Due(ctx, keep)
	if err != nil {
		return err
	}
	if planned != "" && planned != d.Digest {
		return ErrOtherPlan
	}
	return k.drop(ctx, d.seqs, r)
}

// Due describes what Prune would drop.
type Due struct {
	Keep     int           // number of versions of each path that are kept
	Age      time.Duration // younger versions are kept
	Versions int
	Bytes    int64   // size of their contents, uncompressed
	Paths    []Share // largest first
	Digest   string  // identifies the set of versions that Prune would drop

	seqs []uint64
}

// Due returns what Prune would drop.
func (k *Keeper) Due(ctx context.Context, keep int) (Due, error) {
	if keep <= 0 {
		keep = k.opt.Keep
	}
	d, h := Due{Keep: keep, Age: k.opt.KeepAge}, fnv.New64a()
	old, err := k.olderThan(k.opt.KeepAge)
	if err == nil {
		err = k.s.Superseded(ctx, keep, func(v store.Outdated) bool {
			if !old(v.Seq, v.Time) || k.pinned(v.Blob) {
				return true
			}
			if n := len(d.Paths); n == 0 || d.Paths[n-1].Name != string(v.Path) {
				d.Paths = append(d.Paths, Share{Name: string(v.Path)})
			}
			p := &d.Paths[len(d.Paths)-1]
			p.Versions, p.Bytes = p.Versions+1, p.Bytes+v.Size
			d.Versions, d.Bytes = d.Versions+1, d.Bytes+v.Size
			d.seqs = append(d.seqs, v.Seq)
			fmt.Fprintf(h, "%d ", v.Seq)
			return true
		})
	}
	slices.SortFunc(d.Paths, func(a, b Share) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Name, b.Name))
	})
	d.Digest = fmt.Sprintf("%x", h.Sum64())
	if err != nil {
		err = fmt.Errorf("plan a prune: %w", err)
	}
	return d, err
}

// olderThan returns a function that reports whether a version has at least this age. A version
// recorded while the clock was far behind is not older than the versions before it.
func (k *Keeper) olderThan(age time.Duration) (func(seq uint64, time int64) bool, error) {
	t := k.opt.Now().Add(-age)
	at, err := k.s.SeqAt(t)
	return func(seq uint64, time int64) bool { return seq <= at && time < t.UnixNano() }, err
}

// Collect enforces the store's limits: the free-space floor, the cap, age and count, and the budget
// of ignored files. It is cheap if no limit is exceeded. The caller calls it about every minute.
func (k *Keeper) Collect(ctx context.Context) (Report, error) {
	k.contents.Lock()
	defer k.contents.Unlock()
	now := k.opt.Now()
	used := k.room.Usage(now, false)
	r := Report{Before: used, After: used}
	free, total, err := k.room.Free()
	if err != nil {
		return r, err
	}
	need := int64(0)
	if floor := k.room.Floor(total); free < floor+floor/16 {
		need = floor + floor/8 - free
	}
	limit := k.opt.Cap
	if k.opt.Allowed != nil {
		limit = k.opt.Allowed(used)
	}
	if used > limit && !k.shrunken.shouldWait(now, k.s.Seq()) {
		need = max(need, used-limit*9/10)
	}
	due := now.Sub(k.tidied) > tidyEvery || now.Before(k.tidied)
	if due {
		k.tidied = now
		err = k.s.Notes.DropOldest()
	}
	switch {
	case err != nil:
	case need > 0:
		err = k.shrink(ctx, need, &r)
		if err == nil && r.Blobs+r.Packed == 0 && k.room.Usage(k.opt.Now(), true) > limit {
			k.shrunken = shrunken{at: now, seq: k.s.Seq()}
			k.remember()
		}
	case due && k.opt.MaxAge > 0:
		err = k.dropAged(ctx, &r)
	case due && used > limit/2:
		err = k.prune(ctx, 0, "", &r)
		if err == nil && r.Blobs > 0 {
			err = k.compact(ctx, db.WasteSome)
		}
	}
	if err == nil && due {
		k.remember()
	}
	if err == nil {
		err = k.ignoredBudget(ctx, &r)
	}
	if err == nil {
		err = k.contents.EndOffers(ctx, due, now, &r.Report)
		if err == nil && due && r.Loosened >= worthCompacting {
			err = k.compact(ctx, db.WasteSome)
		}
	}
	if err == nil && k.packDue(now) {
		k.packed = now
		err = k.repackInRoom(ctx, true, &r)
		if err == nil && r.Loosened >= worthCompacting {
			err = k.compact(ctx, db.WasteSome)
		}
	}
	if err == nil && k.s.Records() > limits.LogVersions {
		err = k.trimLog(ctx, &r)
	}
	if r.Blobs+r.Records+r.Packed > 0 {
		r.After = k.room.Usage(k.opt.Now(), true)
	}
	return r, err
}

// shrunken records a collection that dropped everything it may and still left the store above its
// limit. The next attempt waits, because each attempt checks the whole store.
type shrunken struct {
	at  time.Time
	seq uint64 // the newest version at that time
}

const (
	// shrinkAgain is the pause if something was stored since the last attempt. Otherwise the pause
	// is shrinkAnew.
	shrinkAgain = 10 * time.Minute
	shrinkAnew  = 6 * time.Hour
)

func (t shrunken) shouldWait(now time.Time, seq uint64) bool {
	pause := shrinkAgain
	if seq == t.seq {
		pause = shrinkAnew
	}
	past := now.Sub(t.at)
	return !t.at.IsZero() && past >= 0 && past < pause
}

// shrink frees need bytes in several steps and stops when enough is free. It
//   - packs, which drops no content,
//   - drops what Prune would drop,
//   - drops superseded contents beyond reach, oldest first, regardless of their count,
//   - drops the present contents of files outside projects (MaxAge is set),
//   - drops superseded contents within reach, which an undo may need,
//   - drops the diff bases of live sessions.
//
// It never drops the present contents of a project's paths.
func (k *Keeper) shrink(ctx context.Context, need int64, r *Report) error {
	goal := r.Before - need
	if st := k.s.Stats(); st.Loose >= content.PackLeast && st.Loose >= st.RawBytes/8 {
		if err := k.repackInRoom(ctx, false, r); err != nil {
			return err
		}
		if err := k.compact(ctx, db.WasteSome); err != nil {
			return err
		}
	}
	unreached, err := k.olderThan(reach)
	if err != nil {
		return err
	}
	rounds := []func(v store.Version, present bool) bool{
		nil, // what Prune drops
		func(v store.Version, present bool) bool {
			return !present && unreached(v.Seq, v.Time) && !k.pinned(v.Blob)
		},
		func(v store.Version, present bool) bool {
			return present && k.opt.MaxAge > 0 && !k.pinned(v.Blob)
		},
		func(v store.Version, present bool) bool { return !present && !k.pinned(v.Blob) },
		func(_ store.Version, present bool) bool { return !present },
	}
	for i, may := range rounds {
		for {
			used := k.room.Usage(k.opt.Now(), true)
			if used <= goal {
				return nil
			}
			before := r.Blobs
			var err error
			if i == 0 {
				err = k.prune(ctx, 0, "", r)
			} else {
				err = k.dropOldest(ctx, used-goal, may, r)
			}
			if err != nil {
				return err
			}
			if r.Blobs == before {
				break
			}
			if err := k.compact(ctx, db.WasteSome); err != nil {
				return err
			}
			if i == 0 {
				break
			}
		}
	}
	return nil
}

// dropAged drops all contents that are older than MaxAge.
func (k *Keeper) dropAged(ctx context.Context, r *Report) error {
	old, err := k.olderThan(k.opt.MaxAge)
	if err != nil {
		return err
	}
	return k.dropOldest(ctx, math.MaxInt64/2, func(v store.Version, _ bool) bool { return old(v.Seq, v.Time) }, r)
}

// dropOldest drops contents, oldest first, until about need bytes are free. It drops only contents
// for which may returns true. The argument present tells whether the content is the present content
// of a path.
func (k *Keeper) dropOldest(ctx context.Context, need int64, may func(v store.Version, present bool) bool, r *Report) error {
	var drop []uint64
	sizes, err := k.contents.Sizes()
	if err != nil {
		return err
	}
	// Find out which contents are present somewhere, because a content may be current for one path
	// and superseded for another.
	live, err := k.liveHashes()
	if err != nil {
		return err
	}
	freed := int64(0)
	counted := map[uint64]bool{}
	err = k.s.Each(func(v store.Version) bool {
		if v.Blob != (content.Hash{}) && may(v, live.Has(v.Blob)) {
			drop = append(drop, v.Seq)
			if k := content.Short(v.Blob); !counted[k] {
				counted[k] = true
				freed += sizes[k]
			}
		}
		return freed < need+need/8 && ctx.Err() == nil
	})
	if err != nil {
		return err
	}
	return k.drop(ctx, drop, r)
}

// packDue decides whether Collect repacks. The caller holds the lock of the contents.
func (k *Keeper) packDue(now time.Time) bool {
	loose := k.s.Stats().Loose
	quiet := now.Sub(k.s.Applied())
	switch {
	case loose >= packEven:
		return true
	case loose < content.PackLeast || !k.calm():
		return false
	case loose >= packMuch:
		return quiet > 20*time.Second
	}
	return quiet > packQuiet && (now.Sub(k.packed) > packEvery || now.Before(k.packed))
}

// repackInRoom repacks. A full disk is no error, because contents must then be dropped first.
func (k *Keeper) repackInRoom(ctx context.Context, gentle bool, r *Report) error {
	err := k.contents.Repack(ctx, gentle, &r.Report)
	if errors.Is(err, store.ErrNoSpace) {
		return nil
	}
	return err
}
