package survey

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"cachebro/cmd/cachebro/daemon/attribution"
	"cachebro/cmd/cachebro/daemon/ingest"
	"cachebro/cmd/cachebro/daemon/source"
	"cachebro/store"
	"cachebro/store/onwire"
	"cachebro/store/wire"
)

// File is the present state of a file.
type File struct {
	Path    store.Path // without symbolic links
	Hash    store.Hash
	Stat    store.Stat
	Version store.Version // the newest version, if it has this content
	Known   bool
	Content func() ([]byte, error)
}

// verifiedStat is the hash of a file's content, and the stat that the file had then. It is kept for
// contents that are not in the version log. Without it, two kinds of files would be hashed at every
// look: files that cannot be stored (too large, a full disk), and files whose times alone have
// changed.
type verifiedStat struct {
	stat store.Stat
	hash store.Hash
}

const maxVerified = 10_000

// Look returns the present content of a path. If everything closed before has been ingested and the
// newest version has the file's stat, Look returns that version's content. Otherwise Look reads the
// file, and stores a change that was not reported.
func (s *Survey) Look(ctx context.Context, p store.Path) (File, error) {
	if s.Absent {
		return s.recorded(p)
	}
	caughtUp := s.Ingest.WaitHead(ctx, ingest.FreshWait)
	f, st, err := s.Source.Open(ctx, p)
	if err != nil {
		if errors.Is(err, wire.ErrNotFound) && caughtUp {
			s.noteGone(ctx, p)
		}
		return File{}, err
	}
	defer f.Close()
	l := File{Path: p, Stat: st}
	v, ok, err := s.Store.Current(p)
	if err != nil {
		return l, onwire.Error(err)
	}
	if !ok || v.Stat.IsLink() {
		if name, found := s.Source.RealName(ctx, f); found && name != p {
			l.Path = name
			v, ok, err = s.Store.Current(name)
			if err != nil {
				return l, onwire.Error(err)
			}
		}
	}
	mounted, attach, _ := s.MountState()
	// An equal stat proves that the content is unchanged only if the mount cannot be bypassed,
	// everything in the spool is in the log, and no write is in progress. Otherwise the file may
	// have changed within the clock tick in which the version was made.
	still := mounted && !attach.Outside && caughtUp && !s.Ingest.Writing(l.Path)
	sure := func(seen int64) bool { return still || seen-st.Ctime > ingest.ClockTick }
	stored := ok && !v.Deleted() && !v.Foreign && v.Blob != (store.Hash{})
	if stored && source.SameContent(v.Stat, st) && sure(v.Time) && s.Store.Has(v.Blob) {
		l.Hash = v.Blob
		l.Version, l.Known = v, true
		l.Content = func() ([]byte, error) { return s.Store.Content(v.Blob) }
		return l, nil
	}
	seen, found := s.verified.Get(l.Path)
	found = found && source.SameContent(seen.stat, st)
	if found && s.Store.Has(seen.hash) && time.Now().UnixNano()-st.Ctime > ingest.ClockTick {
		l.Hash = seen.hash
		l.Content = func() ([]byte, error) { return s.Store.Content(seen.hash) }
		l.Version, l.Known = v, ok && v.Blob == seen.hash
		return l, nil
	}
	content, after, err := source.ReadStable(f, st)
	if err != nil {
		return l, err
	}
	l.Hash, l.Stat = sha256.Sum256(content), after
	l.Content = func() ([]byte, error) { return content, nil }
	if time.Now().UnixNano()-after.Ctime > ingest.ClockTick {
		s.verified.Put(l.Path, verifiedStat{after, l.Hash})
	}
	if ok && v.Blob == l.Hash && !v.Deleted() {
		l.Version, l.Known = v, true
		return l, nil
	}
	if s.mayStore(ctx, l.Path, mounted, attach.Outside, caughtUp) {
		if v, ok := s.StoreFound(ctx, l.Path, after, content, mounted, v); ok {
			l.Version, l.Known = v, true
		}
	}
	return l, nil
}

// recorded returns a file of another machine, from the log.
func (s *Survey) recorded(p store.Path) (File, error) {
	v, ok, err := s.Store.Current(p)
	switch {
	case err != nil:
		return File{}, onwire.Error(err)
	case !ok || v.Deleted():
		return File{}, wire.Errorf(wire.ErrNotFound, "", "%s does not exist", onwire.Display(p))
	case v.Stat.IsDir():
		return File{}, wire.Errorf(wire.ErrIsDir, "", "%s is a directory", onwire.Display(p))
	}
	return File{Path: p, Hash: v.Blob, Stat: v.Stat, Version: v, Known: true, Content: func() ([]byte, error) { return s.Store.Content(v.Blob) }}, nil
}

// mayStore reports whether Look may store the content that it has read. On a mount, a changed
// content arrives through the spool. Storing it here as well would put it into the log twice and
// out of order.
func (s *Survey) mayStore(ctx context.Context, p store.Path, mounted, outside, caughtUp bool) bool {
	if s.Source.Excluded(ctx, p) {
		return false
	}
	return !mounted || outside && caughtUp && !s.Ingest.Writing(p)
}

// StoreFound stores a changed content that Look has found, unless the path has a newer version than
// base.
func (s *Survey) StoreFound(ctx context.Context, p store.Path, st store.Stat, content []byte, mounted bool, base store.Version) (store.Version, bool) {
	op := store.OpSeen
	if mounted {
		op = store.OpOutside
	}
	at := time.Now().UnixNano()
	if planIn(ctx) == "" && !mounted {
		at = s.foundAt(lastChange(st, base.Seq == 0))
	}
	if base.Seq == 0 {
		op = store.OpBaseline
		if !mounted && s.madeSince(st) {
			op = store.OpCreate
		}
	}
	c := store.Change{Op: op, Path: p, Stat: st, Time: at, Actor: actorIn(ctx), HasContent: true, Content: content, Class: s.Source.Class(ctx, p), Plan: planIn(ctx)}
	vs, err := s.Ingest.Append(ctx, []store.Change{c}, func() bool {
		v, _, err := s.Store.Current(p)
		return err == nil && v.Seq == base.Seq
	})
	if err != nil || len(vs) == 0 {
		if err != nil {
			s.Log.Warn("a changed file could not be stored", "path", onwire.Display(p), "err", err)
		}
		return store.Version{}, false
	}
	return vs[len(vs)-1], true
}

// noteGone stores the deletion of a path that is live in the log and disappeared while nothing
// was mounted.
func (s *Survey) noteGone(ctx context.Context, p store.Path) {
	if s.Mounted() {
		return
	}
	v, ok, err := s.Store.Current(p)
	if err != nil || !ok || v.Deleted() {
		return
	}
	if _, err := s.Source.Lstat(ctx, p); !errors.Is(err, wire.ErrNotFound) {
		return
	}
	c := store.Change{Op: store.OpUnlink, Path: p, Class: v.Class, Time: time.Now().UnixNano(), Actor: attribution.Outsider, Plan: planIn(ctx)}
	if c.Plan != "" {
		c.Actor = actorIn(ctx)
	}
	if v.Stat.IsDir() {
		c.Op = store.OpRmdir
	}
	if _, err := s.Ingest.Append(ctx, []store.Change{c}, func() bool {
		now, _, err := s.Store.Current(p)
		return err == nil && now.Seq == v.Seq
	}); err != nil {
		s.Log.Warn("a deletion could not be stored", "path", onwire.Display(p), "err", err)
	}
}
