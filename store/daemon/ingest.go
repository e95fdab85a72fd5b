package daemon

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"cachebro/fusefs/capture/spool"
	"cachebro/store"
	"cachebro/store/wire"
)

// Bounds of one batch: as much as there is, but never so much that a reader
// waits for it.
const (
	batchChanges = 256
	batchBytes   = 8 << 20
	batchTime    = 50 * time.Millisecond

	// releaseEvery and releaseBytes: how much of the consumed spool may lie
	// about before the store is synced and the spool's files are deleted.
	releaseEvery = 5 * time.Second
	releaseBytes = 64 << 20

	// What failed is tried again after retryFirst, then after twice as long each
	// time, but no later than retryLast.
	retryFirst = time.Second
	retryLast  = time.Minute
)

// health of the store, as ingestion sees it.
type health struct {
	ok     bool
	reason string
	since  time.Time
}

// ingester follows the spool. One goroutine reads, maps and applies; anybody
// may ask how far it is.
type ingester struct {
	d      *Daemon
	reader *spool.Reader
	joiner *spool.Joiner
	epoch  uint64 // of the mount whose records come; node ids are unique only within one

	// applyMu is held over store.Apply by everyone who appends to the version
	// log. It guards checkpoint, which goes with every append.
	applyMu    sync.Mutex
	checkpoint []byte

	// kicked and cancelWait end the follower's wait, see poke.
	kicked     atomic.Bool
	cancelWait atomic.Pointer[context.CancelFunc]
	waiters    atomic.Int32              // callers of waitHead that wait
	asked      atomic.Pointer[time.Time] // when one began to wait last; nil: nobody did

	seq    atomic.Uint64 // spool sequence number ingested last
	pos    atomic.Pointer[spool.Position]
	health atomic.Pointer[health]
	// moved is closed and replaced whenever pos has moved.
	moved atomic.Pointer[chan struct{}]

	dirty    dirtyTable
	kept     map[string][]byte // processes of the batch, to be kept before it is applied
	late     map[uint64]lateContent
	unsynced int64
	syncedAt time.Time
	storm    storm
}

// lateContent is a version that was stored without its content because that did
// not come in time.
type lateContent struct {
	change store.Change
	seq    uint64 // of the version
}

func newIngester(d *Daemon) (*ingester, error) {
	g := &ingester{d: d, checkpoint: d.store.Checkpoint(), late: map[uint64]lateContent{}, kept: map[string][]byte{}, epoch: 1, syncedAt: time.Now()}
	pos, seq := decodeCheckpoint(g.checkpoint)
	dir := wire.SpoolDir(d.state)
	r, err := spool.OpenReader(dir, pos)
	if err != nil {
		return nil, err
	}
	// A spool that was deleted and begun anew numbers from the start.
	if head, err := r.Head(); err == nil && head.Segment != 0 && head.Before(spool.Position{Segment: pos.Segment}) {
		d.log.Warn("the spool was begun anew", "checkpoint", pos, "head", head)
		r.Close()
		pos = spool.Position{}
		if r, err = spool.OpenReader(dir, pos); err != nil {
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

func (g *ingester) healthNow() health { return *g.health.Load() }

// run follows the spool until ctx ends.
func (g *ingester) run(ctx context.Context) {
	g.storm.hold = g.d.index.Hold
	defer g.storm.over()
	pause := retryFirst
	for ctx.Err() == nil {
		b, err := g.collect(ctx)
		if len(b.items) > 0 {
			g.storm.note(len(b.items), time.Now())
			if !g.ingestBatch(ctx, b) {
				return
			}
			g.rest(ctx)
		}
		if err != nil && ctx.Err() == nil {
			var c *spool.CorruptError
			if errors.As(err, &c) {
				g.d.log.Error("the spool is damaged", "err", err)
				g.gap(store.Gap{Time: time.Now().UnixNano(), Reason: err.Error()})
				continue
			}
			g.d.log.Error("read the spool", "err", err)
			sleep(ctx, pause)
			pause = min(2*pause, retryLast)
		} else {
			pause = retryFirst
		}
		g.maybeRelease(ctx, false)
	}
}

// batch is what is applied in one step.
type batch struct {
	items []item
	bytes int64
	after spool.Position
	seq   uint64
}

// item is a record with its content in memory.
type item struct {
	j       spool.Joined
	content []byte
	read    bool // content was read from the spool
}

// collect takes what is there, within the bounds; when there is nothing it
// waits, until something comes, somebody kicks, or it is time to look around.
func (g *ingester) collect(ctx context.Context) (batch, error) {
	var b batch
	g.kicked.Store(false)
	j, ok, err := g.joiner.TryNext()
	if !ok && err == nil {
		g.publish(g.joiner.Checkpoint(), 0)
		within := releaseEvery
		if g.unsynced == 0 && g.joiner.Held() == 0 {
			within = time.Minute
		}
		if g.storm.release != nil {
			within = stormQuiet
		}
		wait, cancel := context.WithTimeout(ctx, within)
		g.cancelWait.Store(&cancel)
		if g.kicked.Load() { // between the look and now
			cancel()
		}
		j, err = g.joiner.Next(wait)
		g.cancelWait.Store(nil)
		over := wait.Err() != nil
		cancel()
		if err != nil && over {
			if wait.Err() == context.DeadlineExceeded {
				g.storm.over()
			}
			return b, nil
		}
	}
	deadline := time.Now().Add(batchTime)
	for err == nil {
		g.add(&b, j)
		if len(b.items) >= batchChanges || b.bytes >= batchBytes || time.Now().After(deadline) {
			break
		}
		if j, ok, err = g.joiner.TryNext(); !ok {
			break
		}
	}
	b.after = g.joiner.Checkpoint()
	return b, err
}

// poke makes the follower look at once.
func (g *ingester) poke() {
	g.kicked.Store(true)
	if c := g.cancelWait.Load(); c != nil {
		(*c)()
	}
}

func (g *ingester) add(b *batch, j spool.Joined) {
	it := item{j: j}
	loc := j.Content
	if j.Record.Kind == spool.KindContent {
		loc = j.Record
	}
	if loc != nil {
		content, err := g.reader.Content(loc)
		if err != nil {
			g.d.log.Warn("content is missing", "path", j.Record.Path, "err", err)
			it.j.Missing = true
		} else {
			it.content, it.read = content, true
		}
	}
	b.items = append(b.items, it)
	b.bytes += int64(len(it.content))
	b.seq = max(b.seq, j.Record.Seq)
	if j.Content != nil {
		b.seq = max(b.seq, j.Content.Seq)
	}
}

// ingestBatch stores a batch; false when ctx ended first (it is then read again
// from the checkpoint).
func (g *ingester) ingestBatch(ctx context.Context, b batch) bool {
	var changes []store.Change
	var from []*spool.Record // of each change
	for i := range b.items {
		if c, ok := g.take(ctx, &b.items[i]); ok {
			changes = append(changes, c)
			from = append(from, b.items[i].j.Record)
		}
	}
	if len(g.kept) > 0 {
		if err := g.d.attribution.KeepRows(g.kept); err != nil {
			g.d.log.Warn("processes are not kept for the next daemon", "err", err)
		}
		clear(g.kept)
	}
	versions, ok := g.apply(ctx, changes, encodeCheckpoint(b.after, max(b.seq, g.seq.Load())))
	if !ok {
		return false
	}
	g.remember(changes, from, versions)
	g.d.pairWrites(versions)
	g.unsynced += b.bytes
	g.publish(b.after, b.seq)
	g.maybeRelease(ctx, false)
	return true
}

func (g *ingester) publish(p spool.Position, seq uint64) {
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

// maybeRelease makes what was ingested durable and lets go of the spool's files.
func (g *ingester) maybeRelease(ctx context.Context, now bool) {
	if ctx.Err() != nil || !now && g.unsynced < releaseBytes && time.Since(g.syncedAt) < releaseEvery {
		return
	}
	g.syncedAt = time.Now()
	g.applyMu.Lock()
	checkpoint := g.checkpoint
	g.applyMu.Unlock()
	pos, _ := decodeCheckpoint(checkpoint)
	if g.unsynced > 0 {
		if err := g.d.store.Sync(); err != nil {
			g.d.log.Error("sync", "err", err)
			return
		}
		g.unsynced = 0
	}
	if err := g.reader.Release(pos); err != nil {
		g.d.log.Warn("release", "err", err)
	}
}

// waitHead returns once everything that was in the spool when it was called has
// been ingested; false when that takes longer than within. With nothing new it
// costs one fstat.
func (g *ingester) waitHead(ctx context.Context, within time.Duration) bool {
	head, err := g.reader.Head()
	if err != nil {
		return false
	}
	var timer *time.Timer
	for {
		moved := *g.moved.Load()
		if !g.pos.Load().Before(head) {
			return true
		}
		if timer == nil {
			now := time.Now()
			g.asked.Store(&now)
			g.waiters.Add(1)
			defer g.waiters.Add(-1)
			g.poke()
			timer = time.NewTimer(within)
			defer timer.Stop()
		}
		select {
		case <-moved:
		case <-timer.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// sleep waits; false when ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
