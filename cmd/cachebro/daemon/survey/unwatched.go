package survey

import (
	"cmp"
	"context"
	"math"
	"path"
	"slices"
	"strconv"
	"time"

	"cachebro/cmd/cachebro/daemon/attribution"
	"cachebro/cmd/cachebro/daemon/ingest"
	"cachebro/cmd/cachebro/daemon/source"
	table "cachebro/fusefs/mounts"
	"cachebro/store"
	"cachebro/store/leaf/loop"
	"cachebro/store/onwire"
	"cachebro/store/wire"
)

// A request for the history, an undo or a restore first searches for changes made while nothing was
// mounted. Otherwise these changes would not be shown or undone.

const (
	keepWatch   = "watch"
	keepWatched = "until"
	keepAway    = "away"
)

// noteComplete records that the log was complete at a moment. away means that nothing has
// been mounted since.
func (s *Survey) noteComplete(at time.Time, away bool) {
	s.lastComplete.Store(at.UnixNano())
	s.unmountedSince.Store(away)
	s.keep(keepWatched, strconv.FormatInt(at.UnixNano(), 10))
	s.keep(keepAway, strconv.FormatBool(away))
}

func (s *Survey) keep(key, value string) {
	if err := s.Store.KV(keepWatch).Set(key, []byte(value)); err != nil {
		s.Log.Warn("a value could not be stored for the next daemon", "key", key, "err", err)
	}
}

func (s *Survey) load() error {
	b, ok, err := s.Store.KV(keepWatch).Get(keepWatched)
	if err != nil || !ok {
		return err
	}
	if at, err := strconv.ParseInt(string(b), 10, 64); err == nil {
		s.lastComplete.Store(at)
	}
	b, _, err = s.Store.KV(keepWatch).Get(keepAway)
	s.unmountedSince.Store(string(b) == "true")
	if err != nil {
		return err
	}
	return s.readMissedEnd()
}

// readMissedEnd handles the end of a mount that was not reported to any daemon.
func (s *Survey) readMissedEnd() error {
	l, ok := wire.ReadMountEnd(s.State)
	if !ok {
		return nil
	}
	last, ok := s.lastScan()
	sameProcess := last.PID == l.PID && last.Start == l.Start && last.Boot == l.Boot
	if ok && sameProcess && l.At.UnixNano() > s.lastComplete.Load() {
		s.noteComplete(l.At.Add(-time.Duration(ingest.ClockTick)), true)
		s.keep(keepScanned, "")
	}
	return wire.RemoveMountEnd(s.State)
}

// madeSince reports whether a file that is not in the log was made after the log was last complete.
// An older file may have existed before, ignored or not yet examined, and an undo must not remove
// it.
func (s *Survey) madeSince(st store.Stat) bool {
	known, born := s.lastComplete.Load(), st.Birth
	if born == 0 { // the file system does not record it
		born = st.Ctime
	}
	return known > 0 && born > afterScan(known)
}

// afterScan returns the earliest timestamp that proves a change after the start of the scan that
// set lastComplete. known is one tick before that start.
func afterScan(known int64) int64 { return known + ingest.ClockTick - ingest.ClockLag }

// foundAt returns the time to record for a change that was found. The result is one tick after at,
// because the kernel's clock for files lags, but not before the newest version and not in the
// future.
func (s *Survey) foundAt(at int64) int64 {
	if v, err := s.Store.Version(s.Store.Seq()); err == nil {
		at = max(at, v.Time-ingest.ClockTick)
	}
	return min(at+ingest.ClockTick, time.Now().UnixNano())
}

// covered reports whether an overlay covers the project although no mountd has attached. A mountd
// is then about to attach, and reports the changes itself. A copy of an unmounted mount in this
// process's mount namespace does not count.
func (s *Survey) covered() bool {
	if s.mount.served() {
		return false
	}
	all, err := table.Overlays()
	return err == nil && slices.ContainsFunc(all, func(m table.Mount) bool { return m.Source == s.Root })
}

// UpdateAll waits for the spool. Then it records the changes made while nothing was mounted. On a
// mount it waits for the scan that records them, for at most scanWait: each step of a plan checks
// again what it changes.
func (s *Survey) UpdateAll(ctx context.Context) error {
	s.Ingest.WaitHead(ctx, ingest.QueryWait)
	if s.Mounted() && (s.lastComplete.Load() != 0 || s.outdated.Load()) {
		for end := time.Now().Add(scanWait); s.Scanning() && time.Now().Before(end); {
			if ok, _ := s.Ingest.Health(); !ok || !loop.Pause(ctx, 2*time.Millisecond) {
				break
			}
		}
		return ctx.Err()
	}
	return s.updateUnwatched(ctx)
}

// Outdated reports whether the log may lack changes from before the present mount, because no scan has
// completed since.
func (s *Survey) Outdated() bool { return s.Mounted() && s.outdated.Load() && s.Scanning() }

// updateUnwatched is UpdateAll without the wait.
func (s *Survey) updateUnwatched(ctx context.Context) error {
	if s.Absent || s.lastComplete.Load() == 0 || s.Mounted() || s.covered() {
		return nil
	}
	// Only one search runs at a time. A caller that waited finds little to do.
	s.updating.Lock()
	defer s.updating.Unlock()
	started := time.Now().Add(-time.Duration(ingest.ClockTick))
	b := s.baseline
	b.count(func(w *wire.Baseline) { *w = wire.Baseline{Running: true, Started: started} })
	err := b.unwatched(ctx)
	b.count(func(w *wire.Baseline) { w.Running, w.Done, w.Ended = false, err == nil, time.Now() })
	if err == nil {
		s.noteComplete(started, true)
	}
	return err
}

// UpdateKnown records the changes of the files that are in the log, and removed directories. It is for
// projects that were never mounted: agents read and wrote only a few files over MCP, or the history was
// imported.
func (s *Survey) UpdateKnown(ctx context.Context) error {
	if s.Absent || s.lastComplete.Load() != 0 || s.Mounted() || s.covered() {
		return nil
	}
	var known []store.Version
	err := s.Store.Live("", func(v store.Version) error {
		known = append(known, v)
		return ctx.Err()
	})
	if err != nil {
		return onwire.Error(err)
	}
	for _, v := range known {
		if st, err := s.Source.Lstat(ctx, v.Path); err == nil && (st.IsDir() && v.Stat.IsDir() || source.SameContent(v.Stat, st)) {
			continue // the log may lack its content, but nothing endangers the file
		}
		if _, err := s.Look(ctx, v.Path); ctx.Err() != nil {
			return err
		}
	}
	return nil
}

// UpdateBypassed records unreported changes and removals, if the mount can be bypassed.
func (s *Survey) UpdateBypassed(ctx context.Context) error {
	if !s.Mounted() || !s.mount.unwatched() {
		return nil
	}
	missing, err := s.LookAtAll(ctx)
	if missing != "" {
		s.Log.Warn("unreported changes cannot be found", "err", missing)
	}
	return err
}

// unwatched scans the tree and records the changes in the order in which they happened.
func (b *baseline) unwatched(ctx context.Context) error {
	s, done, err := b.scanner(ctx)
	if err != nil {
		return err
	}
	defer done()
	s.requested, s.collect, s.until = true, true, math.MaxInt64
	if err := s.walk(ctx, ""); err != nil {
		return err
	}
	if err := s.vanished(ctx); err != nil {
		return err
	}
	s.collect = false
	all := s.batch
	s.batch = nil
	slices.SortStableFunc(all, func(a, b found) int { return cmp.Compare(a.c.Time, b.c.Time) })
	at := b.survey.foundAt(0)
	for i := range all {
		f := &all[i]
		at = max(at, min(f.c.Time+ingest.ClockTick, time.Now().UnixNano()))
		f.c.Time = at
		if f.c.Stat.IsRegular() && f.c.Op != store.OpUnlink && !s.content(f.c.Path, &f.c) {
			continue
		}
		if err := s.add(ctx, *f); err != nil {
			return err
		}
	}
	return s.flush(ctx)
}

// classifyNew decides whether a path that is not in the log was made while nothing was mounted, or
// existed before and is seen for the first time. A path can also be new because an older file was
// moved or linked to it. The log then has that file under another name.
func (s *scanner) classifyNew(c *store.Change) error {
	sv, dir := s.b.survey, c.Stat.IsDir()
	at := lastChange(c.Stat, true)
	if !sv.madeSince(c.Stat) {
		at = max(c.Stat.Ctime, s.namedAt[path.Dir(string(c.Path))])
		known := sv.lastComplete.Load()
		if known == 0 || at <= known || at >= s.until {
			return nil
		}
		if !s.mayHaveAppeared(c.Path, known) {
			return nil
		}
		if renamed, err := s.renamed(c.Stat); err != nil || !renamed {
			return err
		}
		if dir {
			s.namedAt[string(c.Path)] = at
		}
	}
	if at >= s.until {
		return nil
	}
	c.Op, c.Actor = store.OpCreate, attribution.Outsider
	if dir {
		c.Op = store.OpMkdir
	}
	if s.collect {
		c.Time = at
	}
	return nil
}

// mayHaveAppeared reports whether a path may have appeared since the scan that set lastComplete.
// That is possible only if the path's directory has changed since the scan, or is itself new.
func (s *scanner) mayHaveAppeared(p store.Path, known int64) bool {
	dir := path.Dir(string(p))
	if s.namedAt[dir] > known {
		return true
	}
	st, _, err := source.LstatBeneath(s.dir, dir)
	return err != nil || st.Mtime > afterScan(known)
}

type loggedFile struct {
	links uint32 // the greatest link count of its versions
	names []store.Path
}

// renamed reports whether an existing file has got a new name. The file then has more names than
// the log counted, or one of its names in the log no longer exists. Otherwise the file had the name
// all along, and the name was ignored.
func (s *scanner) renamed(st store.Stat) (bool, error) {
	of := func(st store.Stat) [3]uint64 { return [3]uint64{st.Dev, st.Ino, uint64(st.Birth)} }
	if s.files == nil {
		s.files = map[[3]uint64]loggedFile{}
		err := s.b.survey.Store.View(func(view *store.View) error {
			return view.Live("", func(v store.Version) error {
				if v.Stat.Nlink > 1 {
					now, _, err := view.Current(v.Path)
					if err != nil {
						return err
					}
					v = now
				}
				f := s.files[of(v.Stat)]
				s.files[of(v.Stat)] = loggedFile{max(f.links, v.Stat.Nlink), append(f.names, v.Path)}
				return nil
			})
		})
		if err != nil {
			return false, onwire.Error(err)
		}
	}
	f, ok := s.files[of(st)]
	if !ok {
		return false, nil
	}
	gone := func(p store.Path) bool {
		now, _, err := source.LstatBeneath(s.dir, string(p))
		return err != nil || of(now) != of(st)
	}
	more := !st.IsDir() && uint32(st.Nlink) > f.links
	return more || slices.ContainsFunc(f.names, gone), nil
}

// lastChange returns the time at which a file that was found got its present state. A new
// directory counts from its birth, because every file made in it changes its ctime.
func lastChange(st store.Stat, fresh bool) int64 {
	if fresh && st.IsDir() && st.Birth > 0 {
		return st.Birth
	}
	return st.Ctime
}

// goneAt returns when a path may have disappeared: when the nearest existing directory above it
// last changed.
func (s *scanner) goneAt(p store.Path) int64 {
	for dir := p.Dir(); ; dir = dir.Dir() {
		if st, _, err := source.LstatBeneath(s.dir, string(dir)); err == nil {
			return st.Mtime
		}
		if dir == "" {
			return time.Now().UnixNano()
		}
	}
}
