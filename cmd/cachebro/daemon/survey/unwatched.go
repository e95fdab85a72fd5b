package survey

import (
	"cmp"
	"context"
	"math"
	"path"
	"slices"
	"strconv"
	"syscall"
	"time"

	"cachebro/cmd/cachebro/daemon/attribution"
	"cachebro/cmd/cachebro/daemon/ingest"
	"cachebro/cmd/cachebro/daemon/source"
	table "cachebro/fusefs/mounts"
	"cachebro/store"
	"cachebro/store/onwire"
	"cachebro/store/wire"
)

// What changed while nothing was mounted is looked for when somebody asks for a
// history, or wants to go back in it: what is not in the log would neither be
// shown nor taken back.

const (
	keepWatch   = "watch"
	keepWatched = "until"
	keepAway    = "away"
)

// noteComplete notes that the log has all that there was at a moment. away: nothing has
// been mounted since.
func (s *Survey) noteComplete(at time.Time, away bool) {
	s.known.Store(at.UnixNano())
	s.away.Store(away)
	s.keep(keepWatched, strconv.FormatInt(at.UnixNano(), 10))
	s.keep(keepAway, strconv.FormatBool(away))
}

func (s *Survey) keep(key, value string) {
	if err := s.Store.KV(keepWatch).Set(key, []byte(value)); err != nil {
		s.Log.Warn("not kept for the next daemon", "key", key, "err", err)
	}
}

// load takes back what the last daemon knew.
func (s *Survey) load() error {
	b, ok, err := s.Store.KV(keepWatch).Get(keepWatched)
	if err != nil || !ok {
		return err
	}
	if at, err := strconv.ParseInt(string(b), 10, 64); err == nil {
		s.known.Store(at)
	}
	b, _, err = s.Store.KV(keepWatch).Get(keepAway)
	s.away.Store(string(b) == "true")
	return err
}

// madeSince reports whether a file that the log does not know was made after the last
// moment of which it has everything. Else it may have been there, and was not looked at or
// was ignored: an undo would remove it.
func (s *Survey) madeSince(st store.Stat) bool {
	known, born := s.known.Load(), st.Birth
	if born == 0 { // this file system does not say
		born = st.Ctime
	}
	return known > 0 && born > afterScan(known)
}

// afterScan is from when on a file's time shows that it was changed after the scan that
// noted known began, which lies a tick before it.
func afterScan(known int64) int64 { return known + ingest.ClockTick - ingest.ClockLag }

// foundAt is when a change that was found happened: at the file's last change, as
// far as the log's order allows. The kernel's clock for files is a little behind.
func (s *Survey) foundAt(at int64) int64 {
	if v, err := s.Store.Version(s.Store.Seq()); err == nil {
		at = max(at, v.Time-ingest.ClockTick)
	}
	return min(at+ingest.ClockTick, time.Now().UnixNano())
}

// covered: an overlay is on the project though no mountd has said so; another
// one is about to, and tells by itself what happened. A copy that this process has of a
// mount that has gone from its mountpoint is none.
func (s *Survey) covered() bool {
	if s.mount.served() {
		return false
	}
	all, err := table.Overlays()
	return err == nil && slices.ContainsFunc(all, func(m table.Mount) bool { return m.Source == s.Root })
}

// UpdateAll waits for the spool, and takes into the log what has changed while nothing
// was mounted, since it had everything.
func (s *Survey) UpdateAll(ctx context.Context) error {
	s.Ingest.WaitHead(ctx, ingest.QueryWait)
	return s.updateUnwatched(ctx)
}

// updateUnwatched is UpdateAll without the wait.
func (s *Survey) updateUnwatched(ctx context.Context) error {
	if s.Absent || s.known.Load() == 0 || s.mount.mounted() || s.covered() {
		return nil
	}
	// One after the other: who comes second finds little to do.
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

// UpdateKnown takes into the log what became of the files that it knows, where it never
// had all: nothing was mounted so far, and agents read and wrote a few files by way of
// MCP.
func (s *Survey) UpdateKnown(ctx context.Context) error {
	if s.Absent || s.known.Load() != 0 || s.mount.mounted() || s.covered() {
		return nil
	}
	var known []store.Version
	err := s.Store.Live("", func(v store.Version) error {
		if v.Stat.Mode&syscall.S_IFMT != syscall.S_IFDIR {
			known = append(known, v)
		}
		return ctx.Err()
	})
	if err != nil {
		return onwire.Error(err)
	}
	for _, v := range known {
		if st, err := s.Source.Lstat(ctx, v.Path); err == nil && source.SameContent(v.Stat, st) {
			continue // perhaps the log has no content of it; nothing threatens that
		}
		if _, err := s.Look(ctx, v.Path); ctx.Err() != nil {
			return err
		}
	}
	return nil
}

// UpdateBeside takes into the log what was changed or removed beside a mount, which
// nobody has told of, where somebody can get around it.
func (s *Survey) UpdateBeside(ctx context.Context) error {
	if !s.mount.mounted() || !s.mount.unwatched() {
		return nil
	}
	missing, err := s.LookAtAll(ctx)
	if missing != "" {
		s.Log.Warn("what changed unseen is not known", "err", missing)
	}
	return err
}

// unwatched is a scan that puts what it finds into the log in the order in which it
// happened.
func (b *baseline) unwatched(ctx context.Context) error {
	s, done, err := b.scanner(ctx)
	if err != nil {
		return err
	}
	defer done()
	s.collect, s.until = true, math.MaxInt64
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
		if f.c.Stat.Mode&syscall.S_IFMT == syscall.S_IFREG && f.c.Op != store.OpUnlink && !s.content(f.c.Path, &f.c) {
			continue
		}
		if err := s.add(ctx, *f); err != nil {
			return err
		}
	}
	return s.flush(ctx)
}

// came sees to a path that the log does not know: it was made while nothing was
// mounted, if not, it was there before and is seen for the first time. Who moves or
// links what is older makes a path too; the log knows the file by another name then.
func (s *scanner) came(c *store.Change) error {
	sv, dir := s.b.survey, c.Stat.Mode&syscall.S_IFMT == syscall.S_IFDIR
	at := lastChange(c.Stat, true)
	if !sv.madeSince(c.Stat) {
		at = max(c.Stat.Ctime, s.at[path.Dir(string(c.Path))])
		known := sv.known.Load()
		if known == 0 || at <= known || at >= s.until {
			return nil
		}
		if !s.gained(c.Path, known) {
			return nil
		}
		if renamed, err := s.renamed(c.Stat); err != nil || !renamed {
			return err
		}
		if dir {
			s.at[string(c.Path)] = at
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

// gained reports whether a path may have come since the scan that noted known: the
// directory that it is in has changed since, or came itself.
func (s *scanner) gained(p store.Path, known int64) bool {
	dir := path.Dir(string(p))
	if s.at[dir] > known {
		return true
	}
	st, _, err := source.LstatBeneath(s.dir, dir)
	return err != nil || st.Mtime > afterScan(known)
}

// loggedFile is what the log has of a file.
type loggedFile struct {
	links uint32 // the most that were counted
	names []store.Path
}

// renamed reports whether a file that was there before has come to a new name: it has more
// names than the log counted, or one of those in the log is gone. Else it had the name all
// along, and was ignored. It is asked for few files.
func (s *scanner) renamed(st store.Stat) (bool, error) {
	of := func(st store.Stat) [3]uint64 { return [3]uint64{st.Dev, st.Ino, uint64(st.Birth)} }
	if s.files == nil {
		s.files = map[[3]uint64]loggedFile{}
		if err := s.b.survey.Store.Live("", func(v store.Version) error {
			f := s.files[of(v.Stat)]
			s.files[of(v.Stat)] = loggedFile{max(f.links, uint32(v.Stat.Nlink)), append(f.names, v.Path)}
			return nil
		}); err != nil {
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
	more := st.Mode&syscall.S_IFMT != syscall.S_IFDIR && uint32(st.Nlink) > f.links
	return more || slices.ContainsFunc(f.names, gone), nil
}

// lastChange is when a file that was found came to be as it is. A directory is
// changed by whoever makes something in it: a new one counts from its beginning.
func lastChange(st store.Stat, fresh bool) int64 {
	if fresh && st.Mode&syscall.S_IFMT == syscall.S_IFDIR && st.Birth > 0 {
		return st.Birth
	}
	return st.Ctime
}

// goneAt is when a path may have vanished: when the nearest directory above it
// that is still there changed last.
func (s *scanner) goneAt(p store.Path) int64 {
	for dir := path.Dir(string(p)); ; dir = path.Dir(dir) {
		if dir == "." {
			dir = ""
		}
		if st, _, err := source.LstatBeneath(s.dir, dir); err == nil {
			return st.Mtime
		}
		if dir == "" {
			return time.Now().UnixNano()
		}
	}
}
