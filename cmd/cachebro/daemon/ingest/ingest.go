// Package ingest reads the records that mountd spooled and turns them into versions, in order. It
// stores its position in the spool together with the versions. Callers can wait until everything
// spooled is ingested.
package ingest

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cachebro/cmd/cachebro/daemon/attribution"
	"cachebro/cmd/cachebro/daemon/source"
	"cachebro/store"
	"cachebro/store/leaf/loop"
	"cachebro/store/leaf/spool"
)

// Bounds of one batch, so that no reader has to wait long for it. A batch takes as many of the
// waiting records as the bounds allow.
const (
	BatchChanges = 256
	BatchBytes   = 8 << 20
	batchTime    = 50 * time.Millisecond
	// batchVersions bounds the expected number of versions of a batch. The rename of a directory
	// makes two for each path in it. A write makes one for each name of the file.
	batchVersions = 16 << 10
	// unknownMove is the number of versions assumed for the first rename of a directory.
	unknownMove = 1000

	// releaseEvery and releaseBytes bound how much consumed spool stays on disk before the
	// store is synced and the spool's files are deleted.
	releaseEvery = 5 * time.Second
	releaseBytes = 64 << 20
)

// health says whether the store accepts versions.
type health struct {
	ok     bool
	reason string
	since  time.Time
}

// Ingester follows the spool. One goroutine reads, maps and applies the records; any goroutine
// may ask for its position.
type Ingester struct {
	store       *store.Store
	source      *source.Source
	attribution *attribution.Attribution
	log         *slog.Logger
	o           Followers

	reader *spool.Reader
	joiner *spool.Joiner
	mounts uint64 // counts mounts, because node ids are unique only within one mount

	// applyMu is held during store.Apply by every goroutine that appends to the version log. It
	// guards checkpoint, which is stored with every append.
	applyMu    sync.Mutex
	checkpoint []byte

	// kicked and cancelWait end a wait of Run; see Poke.
	kicked     atomic.Bool
	cancelWait atomic.Pointer[context.CancelFunc]
	waiters    atomic.Int32              // callers of WaitHead that wait
	lastWaiter atomic.Pointer[time.Time] // when the last of them began to wait; nil if none has

	seq    atomic.Uint64 // spool sequence number of the last ingested record
	pos    atomic.Pointer[spool.Position]
	health atomic.Pointer[health]
	// moved is closed and replaced whenever pos has moved.
	moved atomic.Pointer[chan struct{}]

	dirty                dirtyTable
	bypasses             []Bypass         // records of changes that bypassed the mount, in this batch
	processes            attribution.Rows // of the batch, to be stored before the batch is applied
	late                 map[uint64]lateContent
	unsynced             int64
	syncedAt             time.Time
	burst                burst
	versionsPerDirRename int // number of versions that a rename of a directory made recently

	pace atomic.Int64 // ns per record, of the latest records
}

// lateContent is a version that was stored without its content, because the content did not arrive
// in time.
type lateContent struct {
	change store.Change
	seq    uint64 // of the version
}

// Followers are notified of what is ingested. Only Settle may be nil, and only Bypassed and Settle
// may wait.
type Followers struct {
	Hold    func() (release func()) // makes the index wait
	Changed func()                  // versions were added
	Wrote   func([]store.Version)   // versions from the spool were added
	Reads   func(*spool.Record)     // a process has read files
	Git     GitFollower
	// Bypassed looks at the paths of changes that bypassed the mount, and passes the changes that
	// it finds to the given function. It is called after the rest of their batch is in the log, and
	// may wait for the disk.
	Bypassed func(context.Context, []Bypass, func([]store.Change) bool)
	// Settle makes the recorder of changes that bypass the mount write all of them to the spool. It
	// is nil if there is no recorder.
	Settle func()
}

// Bypass is a record of a change that bypassed the mount.
type Bypass struct {
	Record *spool.Record
	Actor  store.Actor
}

// GitFollower receives the changes in git directories. Keep stores them; it is called before
// the spool's position is stored.
type GitFollower interface {
	Take(r *spool.Record, by store.Actor, plan string)
	Keep() error
}

// Open opens the spool in dir, at the store's checkpoint.
func Open(dir string, st *store.Store, src *source.Source, att *attribution.Attribution, log *slog.Logger, o Followers) (*Ingester, error) {
	g := &Ingester{store: st, source: src, attribution: att, log: log, o: o, checkpoint: st.Checkpoint(), late: map[uint64]lateContent{}, mounts: 1, versionsPerDirRename: unknownMove, syncedAt: time.Now()}
	pos, seq := decodeCheckpoint(g.checkpoint)
	r, err := spool.OpenReader(dir, pos)
	if err != nil {
		return nil, err
	}
	// If the head is before the checkpoint, the spool was deleted and created again. Its segments
	// are then numbered from the start, so read it from the start.
	if head, err := r.Head(); err == nil && head.Segment != 0 && head.Before(spool.Position{Segment: pos.Segment}) {
		log.Warn("the spool begins again, before the position up to which it was read", "checkpoint", pos, "head", head)
		r.Close()
		pos = spool.Position{}
		r, err = spool.OpenReader(dir, pos)
		if err != nil {
			return nil, err
		}
	}
	g.reader, g.joiner = r, spool.NewJoiner(r)
	g.dirty.mount(true)
	g.seq.Store(seq)
	g.pos.Store(&pos)
	ch := make(chan struct{})
	g.moved.Store(&ch)
	g.health.Store(&health{ok: true, since: time.Now()})
	return g, nil
}

// The checkpoint is a spool position and the last sequence number before it.
func encodeCheckpoint(p spool.Position, seq uint64) []byte {
	b := binary.LittleEndian.AppendUint64(nil, p.Segment)
	b = binary.LittleEndian.AppendUint64(b, uint64(p.Offset))
	return binary.LittleEndian.AppendUint64(b, seq)
}

func decodeCheckpoint(b []byte) (spool.Position, uint64) {
	if len(b) != 24 {
		return spool.Position{}, 0
	}
	return spool.Position{Segment: binary.LittleEndian.Uint64(b), Offset: int64(binary.LittleEndian.Uint64(b[8:]))}, binary.LittleEndian.Uint64(b[16:])
}

// Health reports whether the store accepts versions, and if not, why.
func (g *Ingester) Health() (ok bool, reason string) {
	h := g.health.Load()
	return h.ok, h.reason
}

// HeadError returns an error if the spool cannot be read.
func (g *Ingester) HeadError() error {
	_, err := g.reader.Head()
	return err
}

// LastSeq returns the sequence number, in the spool, of the last ingested record.
func (g *Ingester) LastSeq() uint64 { return g.seq.Load() }

// Position returns the position up to which the spool has been ingested.
func (g *Ingester) Position() spool.Position { return *g.pos.Load() }

// Writing reports whether a file's content is being changed, under whichever name.
func (g *Ingester) Writing(p store.Path) bool {
	if g.dirty.has(p) {
		return true
	}
	files := g.dirty.linked()
	if len(files) == 0 {
		return false
	}
	v, found, err := g.store.Current(p)
	return err == nil && found && !v.Deleted() && slices.Contains(files, store.InodeOf(v.Stat))
}

// WritingBelow reports whether the content of p or of anything in its subtree is being
// changed.
func (g *Ingester) WritingBelow(p store.Path) bool {
	if g.dirty.writingBelow(p) {
		return true
	}
	files := g.dirty.linked()
	if len(files) == 0 {
		return false
	}
	var names []store.Path
	err := g.store.View(func(v *store.View) (err error) { names, err = v.NamesOf(files); return err })
	return err != nil || slices.ContainsFunc(names, func(name store.Path) bool { return name.Inside(p) && g.Writing(name) })
}

// Exclusive runs fn while no other goroutine appends to the log.
func (g *Ingester) Exclusive(fn func() error) error {
	g.applyMu.Lock()
	defer g.applyMu.Unlock()
	return fn()
}

// Close closes the spool. Run must have returned.
func (g *Ingester) Close() error { return g.reader.Close() }

// Run follows the spool until ctx ends.
func (g *Ingester) Run(ctx context.Context) {
	g.burst.hold = g.o.Hold
	defer g.burst.end()
	pause := RetryFirst
	for ctx.Err() == nil {
		b, err := g.collect(ctx)
		if len(b.items) > 0 {
			g.burst.note(len(b.items), time.Now())
			if !g.ingestBatch(ctx, b) {
				return
			}
			g.pauseAfterGit(ctx, b)
			g.pauseInBurst(ctx)
		}
		if err != nil && ctx.Err() == nil {
			var c *spool.CorruptError
			if errors.As(err, &c) {
				g.log.Error("the spool is damaged", "err", err)
				g.Gap(store.Gap{Time: time.Now().UnixNano(), Reason: err.Error()})
				continue
			}
			g.log.Error("read the spool", "err", err)
			loop.Pause(ctx, pause)
			pause = min(2*pause, RetryLast)
		} else {
			pause = RetryFirst
		}
		g.maybeRelease(ctx, false)
	}
}

// batch is a number of records that are applied in one step.
type batch struct {
	items    []spool.Joined
	bytes    int64
	expected int // the expected number of versions
	moves    int // renames of directories
	end      spool.Position
	seq      uint64
}

// collect takes the waiting records, within the bounds of a batch. If there are none, it waits
// until a record arrives, Poke is called, or a regular check is due.
func (g *Ingester) collect(ctx context.Context) (batch, error) {
	var b batch
	g.kicked.Store(false)
	j, ok, err := g.joiner.TryNext()
	if !ok && err == nil {
		g.publish(g.joiner.Checkpoint(), 0)
		within := releaseEvery
		if g.unsynced == 0 && g.joiner.Pending() == 0 {
			within = time.Minute
		}
		if g.burst.release != nil {
			within = burstQuiet
		}
		wait, cancel := context.WithTimeout(ctx, within)
		g.cancelWait.Store(&cancel)
		if g.kicked.Load() { // Poke was called since TryNext
			cancel()
		}
		j, err = g.joiner.Next(wait)
		g.cancelWait.Store(nil)
		over := wait.Err() != nil
		cancel()
		if err != nil && over {
			if wait.Err() == context.DeadlineExceeded {
				g.burst.end()
			}
			return b, nil
		}
	}
	deadline := time.Now().Add(batchTime)
	for err == nil {
		g.add(&b, j)
		if len(b.items) >= BatchChanges || b.bytes >= BatchBytes || b.expected >= batchVersions || time.Now().After(deadline) {
			break
		}
		j, ok, err = g.joiner.TryNext()
		if !ok {
			break
		}
	}
	b.end = g.joiner.Checkpoint()
	return b, err
}

// Poke makes Run look at the spool at once, and offer the store again what it has refused.
func (g *Ingester) Poke() {
	g.kicked.Store(true)
	if c := g.cancelWait.Load(); c != nil {
		(*c)()
	}
}

func (g *Ingester) add(b *batch, j spool.Joined) {
	if j.Err != nil {
		g.log.Warn("content is missing", "path", j.Record.Path, "err", j.Err)
	}
	b.items = append(b.items, j)
	b.bytes += int64(len(j.Content))
	b.seq = max(b.seq, j.Last)
	switch r := j.Record; {
	case r.Kind != spool.KindVersion:
	case movesDir(r):
		b.expected += g.versionsPerDirRename
		b.moves++
	case r.Op == store.OpWrite || r.Op == store.OpTruncate || r.Op == store.OpChmod:
		b.expected += int(max(r.Stat.Nlink, 1))
	default:
		b.expected++
	}
}

// movesDir reports whether a record may describe the rename of a directory.
func movesDir(r *spool.Record) bool {
	return r.Op == store.OpExchange || r.Op == store.OpRename && r.Stat.IsDir()
}

// ingestBatch stores a batch. It returns false if ctx ended first. The batch is then read again
// from the checkpoint.
func (g *Ingester) ingestBatch(ctx context.Context, b batch) bool {
	began := time.Now()
	var changes []store.Change
	var from []*spool.Record // of each change
	for _, j := range b.items {
		if c, ok := g.take(ctx, j); ok {
			changes = append(changes, c)
			from = append(from, j.Record)
		}
	}
	if err := g.attribution.KeepRows(&g.processes); err != nil {
		g.log.Warn("the processes are not stored", "err", err)
	}
	if err := g.o.Git.Keep(); err != nil {
		g.log.Warn("changes of git's own files are not stored", "err", err)
	}
	versions, ok := g.apply(ctx, changes, encodeCheckpoint(b.end, max(b.seq, g.seq.Load())))
	if !ok {
		return false
	}
	g.remember(changes, from, versions)
	g.o.Wrote(versions)
	if len(g.bypasses) > 0 {
		g.o.Bypassed(ctx, g.bypasses, func(found []store.Change) bool {
			vs, ok := g.apply(ctx, found, nil)
			g.o.Wrote(vs)
			return ok
		})
		g.bypasses = nil
	}
	g.unsynced += b.bytes
	if b.moves > 0 {
		g.versionsPerDirRename = max(len(versions)/b.moves, g.versionsPerDirRename/2, 2)
	}
	g.pace.Store((g.pace.Load() + int64(time.Since(began))/int64(len(b.items))) / 2)
	g.publish(b.end, b.seq)
	g.maybeRelease(ctx, false)
	return true
}

func (g *Ingester) publish(p spool.Position, seq uint64) {
	if seq > g.seq.Load() {
		g.seq.Store(seq)
	}
	if old := g.pos.Load(); *old == p {
		return
	}
	g.pos.Store(&p)
	ch := make(chan struct{})
	close(*g.moved.Swap(&ch))
}

// maybeRelease syncs the store and deletes the ingested files of the spool. It does nothing if that
// is not due, unless now is set.
func (g *Ingester) maybeRelease(ctx context.Context, now bool) {
	if ctx.Err() != nil || !now && g.unsynced < releaseBytes && time.Since(g.syncedAt) < releaseEvery {
		return
	}
	g.syncedAt = time.Now()
	g.applyMu.Lock()
	checkpoint := g.checkpoint
	g.applyMu.Unlock()
	pos, _ := decodeCheckpoint(checkpoint)
	if g.unsynced > 0 {
		if err := g.store.Sync(); err != nil {
			g.log.Error("sync", "err", err)
			return
		}
		g.unsynced = 0
	}
	if err := g.reader.Release(pos); err != nil {
		g.log.Warn("release", "err", err)
	}
}

// WaitHead waits until everything that was in the spool at the call is ingested. It returns
// false if that takes longer than within. If there is nothing new, a call costs one fstat.
func (g *Ingester) WaitHead(ctx context.Context, within time.Duration) bool {
	g.settle()
	head, err := g.reader.Head()
	if err != nil {
		return false
	}
	var timeout <-chan time.Time
	for {
		moved := *g.moved.Load()
		if !g.pos.Load().Before(head) {
			return true
		}
		if timeout == nil {
			now := time.Now()
			g.lastWaiter.Store(&now)
			g.waiters.Add(1)
			defer g.waiters.Add(-1)
			g.Poke()
			timeout = time.After(within)
		}
		select {
		case <-moved:
		case <-timeout:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// settle makes the recorder of changes that bypass the mount write all noticed changes to the
// spool. These include the changes that a killed recorder had noticed.
func (g *Ingester) settle() {
	if g.o.Settle != nil {
		g.o.Settle()
	}
}

// Await is WaitHead for a request. It does not wait for a backlog that would take too long. behind
// is approximately how many records are still missing.
func (g *Ingester) Await(ctx context.Context, within time.Duration) (behind uint64) {
	g.settle()
	behind = g.Lag()
	if near := behind <= few || time.Duration(behind)*time.Duration(g.pace.Load()) <= within/4; near && g.WaitHead(ctx, within) {
		return 0
	}
	return g.Lag()
}

// few is the largest backlog that Await always waits for. It may consist of changes made right
// before the request.
const few = 8

// recordSize is the assumed size of a record, in bytes, if nothing better is known.
const recordSize = 200

// Lag returns about how many records of the spool are not in the log. It estimates the number from
// the names of the segments, which are the numbers of their first records.
func (g *Ingester) Lag() uint64 {
	head, err := g.reader.Head()
	pos, seq := *g.pos.Load(), g.seq.Load()
	if err != nil || !pos.Before(head) {
		return 0
	}
	size := uint64(recordSize)
	if n := seq + 1 - pos.Segment; pos.Segment <= seq && n > 16 {
		size = max(uint64(pos.Offset)/n, 1)
	}
	if head.Segment != pos.Segment && head.Segment > seq {
		return max(head.Segment-1-seq+uint64(head.Offset)/size, 1)
	}
	return max(uint64(max(head.Offset-pos.Offset, 0))/size, 1)
}

// Append adds changes that did not come from the spool, without moving the checkpoint. While it
// holds the lock, it calls still, if that is not nil. It adds nothing if still returns false, which
// means that the changes are out of date.
func (g *Ingester) Append(ctx context.Context, cs []store.Change, still func() bool) ([]store.Version, error) {
	g.applyMu.Lock()
	defer g.applyMu.Unlock()
	if still != nil && !still() {
		return nil, nil
	}
	defer g.o.Changed()
	return g.store.Apply(ctx, cs, nil)
}

// Busy reports whether the spool holds records that are not ingested yet.
func (g *Ingester) Busy() bool {
	head, err := g.reader.Head()
	return err == nil && g.pos.Load().Before(head)
}

// A failed operation is retried after RetryFirst. The pause doubles with each failure, up to
// RetryLast. See also Poke.
const (
	RetryFirst = time.Second
	RetryLast  = time.Minute
)

// FreshWait is how long a read waits until the files that were closed before it are recorded.
const FreshWait = 20 * time.Millisecond

// RecordWait is how long a change may be visible before its record is in the spool. A mountd that
// has just started reads the project's rules before it reports anything.
const RecordWait = 500 * time.Millisecond

// QueryWait is how long log, show and the like wait for records that have just been spooled:
// after "sed -i x; cachebro log" people expect to see what sed did.
const QueryWait = 2 * time.Second

// ClockTick is the time, in ns, within which two changes may get the same ctime. The kernel's clock
// for time stamps advances every 4 ms on most systems, every 10 ms on some.
const ClockTick = int64(20 * time.Millisecond)

// ClockLag is the most by which the kernel's clock for time stamps lags, in ns: one jiffy at 100
// Hz.
const ClockLag = int64(10 * time.Millisecond)
