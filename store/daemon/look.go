package daemon

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"syscall"
	"time"

	"cachebro/store"
	"cachebro/store/daemon/attribution"
	"cachebro/store/daemon/onwire"
	"cachebro/store/daemon/source"
	"cachebro/store/daemon/waits"
	"cachebro/store/wire"
)

// looked is a file as it is now.
type looked struct {
	path    store.Path // without symbolic links
	hash    store.Hash
	stat    store.Stat
	version store.Version // the newest version, if it has this content
	known   bool
	content func() ([]byte, error)
}

// verifiedTable remembers which content a stat was found to stand for, where
// the version log does not say so: otherwise a file that cannot be stored (too
// large, a full disk) or was only touched would be hashed at every look.
type verifiedTable struct {
	mu sync.Mutex
	m  map[store.Path]verifiedStat
}

type verifiedStat struct {
	stat store.Stat
	hash store.Hash
}

const maxVerified = 10_000

func newVerifiedTable() *verifiedTable { return &verifiedTable{m: map[store.Path]verifiedStat{}} }

func (t *verifiedTable) get(p store.Path, st store.Stat) (store.Hash, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v, ok := t.m[p]
	return v.hash, ok && source.SameContent(v.stat, st)
}

func (t *verifiedTable) put(p store.Path, st store.Stat, h store.Hash) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.m) >= maxVerified {
		for k := range t.m { // any half will do
			delete(t.m, k)
			if len(t.m) < maxVerified/2 {
				break
			}
		}
	}
	t.m[p] = verifiedStat{st, h}
}

// look finds the present content of a path: the newest version, if everything
// closed before has been ingested and the file's stat is that version's; else
// the bytes themselves. A change that nobody told of is stored.
func (d *Daemon) look(ctx context.Context, p store.Path) (looked, error) {
	caughtUp := d.ingest.WaitHead(ctx, waits.Fresh)
	f, st, err := d.source.Open(ctx, p)
	if err != nil {
		if errors.Is(err, wire.ErrNotFound) && caughtUp {
			d.noteGone(ctx, p)
		}
		return looked{}, err
	}
	defer f.Close()
	l := looked{path: p, stat: st}
	v, ok, err := d.store.Current(p)
	if err != nil {
		return l, onwire.Error(err)
	}
	if ok && v.Stat.Mode&syscall.S_IFMT == syscall.S_IFLNK || !ok {
		if name, found := d.source.RealName(ctx, f); found && name != p {
			l.path = name
			if v, ok, err = d.store.Current(name); err != nil {
				return l, onwire.Error(err)
			}
		}
	}
	mounted, attach, _ := d.mount.state()
	// On a mount that nobody can get around, an equal stat is proof once all that
	// was spooled is in the log and no write is under way. Elsewhere a change
	// within the tick in which the version was made could hide.
	still := mounted && !attach.Outside && caughtUp && !d.ingest.Writing(l.path)
	sure := func(seen int64) bool { return still || seen-st.Ctime > waits.Tick }
	if ok && !v.Deleted() && !v.Foreign && v.Blob != (store.Hash{}) && source.SameContent(v.Stat, st) && sure(v.Time) && d.store.Has(v.Blob) {
		l.hash, l.version, l.known = v.Blob, v, true
		l.content = func() ([]byte, error) { return d.store.Content(v.Blob) }
		return l, nil
	}
	if h, found := d.verified.get(l.path, st); found && d.store.Has(h) && time.Now().UnixNano()-st.Ctime > waits.Tick {
		l.hash = h
		l.content = func() ([]byte, error) { return d.store.Content(h) }
		l.version, l.known = v, ok && v.Blob == h
		return l, nil
	}
	content, after, err := source.ReadStable(f, st)
	if err != nil {
		return l, err
	}
	l.hash, l.stat = sha256.Sum256(content), after
	l.content = func() ([]byte, error) { return content, nil }
	if time.Now().UnixNano()-after.Ctime > waits.Tick {
		d.verified.put(l.path, after, l.hash)
	}
	if ok && v.Blob == l.hash && !v.Deleted() {
		l.version, l.known = v, true
		return l, nil
	}
	if d.mayStore(ctx, l.path, mounted, attach.Outside, caughtUp) {
		if v, ok := d.storeFound(ctx, l.path, after, content, mounted, v); ok {
			l.version, l.known = v, true
		}
	}
	return l, nil
}

// mayStore: on a mount, content that differs is on its way through the spool;
// storing it here would put it into the log twice and out of order.
func (d *Daemon) mayStore(ctx context.Context, p store.Path, mounted, outside, caughtUp bool) bool {
	if d.source.Excluded(ctx, p) {
		return false
	}
	return !mounted || outside && caughtUp && !d.ingest.Writing(p)
}

// storeFound stores what a look has found changed, unless the log has moved on
// since base was read.
func (d *Daemon) storeFound(ctx context.Context, p store.Path, st store.Stat, content []byte, mounted bool, base store.Version) (store.Version, bool) {
	op := store.OpSeen
	if mounted {
		op = store.OpOutside
	}
	at := time.Now().UnixNano()
	if planIn(ctx) == "" && !mounted {
		at = d.foundAt(lastChange(st, base.Seq == 0))
	}
	if base.Seq == 0 {
		op = store.OpBaseline
		if !mounted && d.madeSince(st) {
			op = store.OpCreate
		}
	}
	c := store.Change{Op: op, Path: p, Stat: st, Time: at, Actor: actorIn(ctx), HasContent: true, Content: content, Class: d.source.Class(ctx, p), Plan: planIn(ctx)}
	vs, err := d.ingest.Append(ctx, []store.Change{c}, func() bool {
		v, _, err := d.store.Current(p)
		return err == nil && v.Seq == base.Seq
	})
	if err != nil || len(vs) == 0 {
		if err != nil {
			d.log.Warn("a changed file could not be stored", "path", onwire.Display(p), "err", err)
		}
		return store.Version{}, false
	}
	return vs[len(vs)-1], true
}

// noteGone stores that a path, live in the log, has vanished while nothing was
// mounted.
func (d *Daemon) noteGone(ctx context.Context, p store.Path) {
	if d.mount.mounted() {
		return
	}
	v, ok, err := d.store.Current(p)
	if err != nil || !ok || v.Deleted() {
		return
	}
	if _, err := d.source.Lstat(ctx, p); !errors.Is(err, wire.ErrNotFound) {
		return
	}
	c := store.Change{Op: store.OpUnlink, Path: p, Stat: v.Stat, Class: v.Class, Time: time.Now().UnixNano(), Actor: attribution.Outsider, LastName: true, Plan: planIn(ctx)}
	if v.Stat.Mode&syscall.S_IFMT == syscall.S_IFDIR {
		c.Op = store.OpRmdir
	}
	if _, err := d.ingest.Append(ctx, []store.Change{c}, func() bool {
		now, _, err := d.store.Current(p)
		return err == nil && now.Seq == v.Seq
	}); err != nil {
		d.log.Warn("a deletion could not be stored", "path", onwire.Display(p), "err", err)
	}
}
