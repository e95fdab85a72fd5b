package keep

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"cachebro/store"
	"cachebro/store/content"
	"cachebro/store/db"
	"cachebro/store/space"
)

// Keeper enforces the limits of one store. All methods may be called concurrently.
type Keeper struct {
	s        *store.Store
	contents *content.Store
	db       *db.DB
	room     *space.Room
	opt      store.Options
	pinned   func(content.Hash) bool
	calm     func() bool

	// The lock of the contents guards the following fields. The times of the last checks are stored
	// for the next process, see remembered.
	tidied   time.Time
	packed   time.Time // when the last repack began
	shrunken shrunken
}

// New returns the only keeper of a store. pinned, if not nil, reports whether a content is the diff
// base of a live reader; retention drops such contents last. calm, if not nil, reports whether the
// machine is idle enough for packing. Both must be fast and safe for concurrent use.
func New(s *store.Store, pinned func(content.Hash) bool, calm func() bool) *Keeper {
	if pinned == nil {
		pinned = func(content.Hash) bool { return false }
	}
	if calm == nil {
		calm = func() bool { return true }
	}
	k := &Keeper{s: s, contents: s.Contents(), db: s.DB(), room: s.Room(), opt: s.Options(), pinned: pinned, calm: calm}
	k.recall()
	return k
}

// remembered is what a keeper stores for the next keeper. A daemon runs only while there is work,
// so without this record, each new daemon would first check the whole store.
type remembered struct {
	Tidied, ShrunkenAt time.Time
	ShrunkenSeq        uint64
}

const (
	keepBucket = "keep"
	keepKey    = "looks"
)

func (k *Keeper) recall() {
	var r remembered
	if b, ok, err := k.s.KV(keepBucket).Get(keepKey); err == nil && ok && json.Unmarshal(b, &r) == nil {
		k.tidied, k.shrunken = r.Tidied, shrunken{at: r.ShrunkenAt, seq: r.ShrunkenSeq}
	}
}

// remember stores the times of the last checks. It ignores errors, because the next keeper then
// only repeats the checks.
func (k *Keeper) remember() {
	if b, err := json.Marshal(remembered{k.tidied, k.shrunken.at, k.shrunken.seq}); err == nil {
		_ = k.s.KV(keepBucket).Set(keepKey, b)
	}
}

// Report describes what a collection did.
type Report struct {
	content.Report
	Versions int   // number of versions whose content was dropped
	Records  int   // number of versions dropped from the log
	Before   int64 // bytes on disk
	After    int64
}

func (r *Report) add(o content.Report) {
	r.Blobs += o.Blobs
	r.Bytes += o.Bytes
	r.Rebased += o.Rebased
	r.Packed += o.Packed
	r.Loosened += o.Loosened
}

// compact returns deleted space to the file system. The caller holds the lock of the contents.
func (k *Keeper) compact(ctx context.Context, waste float64) error {
	err := k.db.Compact(ctx, waste)
	k.room.Usage(k.opt.Now(), true)
	return err
}

// drop removes the contents of versions and sweeps the store. The caller holds the lock of the
// contents.
func (k *Keeper) drop(ctx context.Context, seqs []uint64, r *Report) error {
	slices.Sort(seqs) // neighbours in the log share a block
	n, err := k.s.DropContents(ctx, seqs, "pruned")
	r.Versions += n
	if err != nil {
		return fmt.Errorf("prune: %w", err)
	}
	swept, err := k.sweep(ctx, content.WasteShared, nil)
	r.add(swept)
	return err
}

// sweep deletes unreferenced contents. For purged, see store.References. The caller holds the lock of
// the contents.
func (k *Keeper) sweep(ctx context.Context, which content.Waste, purged func(store.Path) bool) (content.Report, error) {
	return k.contents.Sweep(ctx, which, func(add func(content.Hash)) error { return k.s.References(ctx, purged, add) })
}

// liveHashes returns the present contents of all paths.
func (k *Keeper) liveHashes() (content.Set, error) {
	return content.NewSet(func(add func(content.Hash)) error {
		return k.s.Live("", func(v store.Version) error { add(v.Blob); return nil })
	})
}
