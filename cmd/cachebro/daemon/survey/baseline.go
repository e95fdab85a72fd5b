package survey

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"cachebro/cmd/cachebro/daemon/attribution"
	"cachebro/cmd/cachebro/daemon/ingest"
	"cachebro/cmd/cachebro/daemon/source"
	"cachebro/store"
	"cachebro/store/leaf/ignore"
	"cachebro/store/leaf/limits"
	"cachebro/store/leaf/loop"
	"cachebro/store/onwire"
	"cachebro/store/wire"
)

// baseline scans the project for files that are not in the log. It scans after each mount. While
// nothing is mounted, it scans once if requested. It skips a file whose stat equals that of its
// newest version.
type baseline struct {
	survey *Survey

	// mu guards the fields below.
	mu       sync.Mutex
	progress wire.Baseline
	done     time.Time     // start of the last completed scan of the present mount
	wake     chan struct{} // capacity 1, never closed
	wanted   bool
	cancel   context.CancelFunc // ends the scan in progress
	expected bool               // see expect
	// notBefore is the earliest start of the next scan.
	notBefore time.Time
}

// request requests a scan. If again is set and a scan is in progress, the scan starts over, because
// it began before the mount.
func (b *baseline) request(again bool) {
	if b.survey.Unscanned {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if again {
		b.done = time.Time{}
		if b.cancel != nil {
			b.cancel()
		}
	} else if b.wanted || b.cancel != nil || !b.done.IsZero() {
		return
	}
	b.wakeUp()
}

// expect announces a scan. It begins when introduced is called, even if another one is in progress.
func (b *baseline) expect() {
	if b.survey.Unscanned {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expected = true
}

// introduced begins the expected scan, because mountd has reported all files that are being written.
// The start of a scan is reported a clock tick early, and must be later than the request.
func (b *baseline) introduced() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.expected {
		b.notBefore = time.Now().Add(time.Duration(2 * ingest.ClockTick))
		b.wakeUp()
	}
}

// wakeUp makes run scan. The caller holds mu.
func (b *baseline) wakeUp() {
	b.wanted, b.expected = true, false
	loop.Wake(b.wake)
}

// adoptScan accepts a scan that an earlier daemon completed for the present mount.
func (b *baseline) adoptScan(scan wire.Baseline) {
	b.mu.Lock()
	b.done, b.progress = scan.Started, scan
	b.mu.Unlock()
	b.survey.Changed()
}

// complete returns the start of the scan that has completed since the present mount attached;
// zero if none has.
func (b *baseline) complete() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.done
}

// Scanning reports whether a scan of every file is in progress or requested.
func (b *baseline) Scanning() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.wanted || b.cancel != nil || b.expected && b.survey.Mounted()
}

// Progress returns how far the last scan of every file has come.
func (b *baseline) Progress() wire.Baseline {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.progress
}

// Run carries out requested scans, one at a time, and repeats a scan that failed.
func (b *baseline) Run(ctx context.Context) {
	pause := ingest.RetryFirst
	var retry <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.wake:
		case <-retry:
			b.request(false)
		}
		b.mu.Lock()
		notBefore := b.notBefore
		b.mu.Unlock()
		if !loop.Pause(ctx, time.Until(notBefore)) {
			return
		}
		b.mu.Lock()
		if !b.wanted {
			b.mu.Unlock()
			continue
		}
		b.wanted, retry = false, nil
		scan, cancel := context.WithCancel(ctx)
		b.cancel = cancel
		// Begin one tick earlier, because the kernel's clock for ctime lags by up to a tick.
		started := time.Now().Add(-time.Duration(ingest.ClockTick))
		b.progress = wire.Baseline{Running: true, Started: started}
		b.mu.Unlock()
		missed := b.survey.mount.scanBegins()
		err := b.scan(scan)
		failed := err != nil && scan.Err() == nil // not because of another request or the daemon's end
		cancel()
		b.mu.Lock()
		b.cancel = nil
		b.progress.Running = false
		b.progress.Ended = time.Now()
		complete := err == nil && !b.wanted
		if complete {
			b.done = started
			b.progress.Done = true
		}
		p := b.progress
		b.mu.Unlock()
		if complete {
			b.survey.outdated.Store(false)
			b.survey.keepScan(p, missed)
		}
		b.survey.Changed()
		if err == nil {
			b.survey.noteComplete(started, !b.survey.Mounted())
		}
		switch {
		case err == nil:
			pause = ingest.RetryFirst
			b.survey.Log.Info("baseline", "files", p.Files, "bytes", p.Bytes, "took", p.Ended.Sub(p.Started).Round(time.Millisecond))
		case failed:
			b.survey.Log.Error("baseline", "err", err)
			retry = time.After(pause)
			pause = min(2*pause, ingest.RetryLast)
		}
	}
}

func (b *baseline) count(f func(*wire.Baseline)) {
	b.mu.Lock()
	f(&b.progress)
	b.mu.Unlock()
}

// scan walks the source and stores what the log does not have.
func (b *baseline) scan(ctx context.Context) error {
	s, done, err := b.scanner(ctx)
	if err != nil {
		return err
	}
	defer done()
	s.until = b.survey.mount.unmountedUntil()
	if since, ok := b.survey.mount.reportsSince(); ok {
		s.pendingSince = max(since, time.Now().Add(-recent).UnixNano())
	}
	if err := s.walk(ctx, ""); err != nil {
		return err
	}
	if err := s.flush(ctx); err != nil {
		return err
	}
	if err := s.lookAgain(ctx); err != nil {
		return err
	}
	if err := s.vanished(ctx); err != nil {
		return err
	}
	return s.flush(ctx)
}

// scanner opens the source for a scan; done closes it.
func (b *baseline) scanner(ctx context.Context) (s *scanner, done func(), err error) {
	sv := b.survey
	dir, err := sv.Source.Acquire(ctx)
	if err != nil {
		return nil, nil, err
	}
	m, err := sv.Source.Rules(dir)
	if err != nil {
		sv.Source.Release(dir)
		return nil, nil, err
	}
	s = &scanner{b: b, dir: dir.File, m: m, namedAt: map[string]int64{}}
	s.log = &listing{store: sv.Store, upTo: sv.Store.Seq()}
	return s, func() {
		m.Close()
		sv.Source.Release(dir)
	}, nil
}

// scanner carries out one scan. It belongs to one goroutine.
type scanner struct {
	b     *baseline
	dir   *os.File
	m     *ignore.Matcher
	log   *listing // the live paths of the log; nil while the paths in later are examined
	batch []found
	bytes int64
	// requested says that a request waits for the scan, which therefore fails if the store accepts
	// nothing.
	requested bool
	// collect says that changes are only collected in batch, without their contents.
	collect bool
	// These fields serve the methods classifyNew and renamed. until is the end of the period
	// without a mount, 0 if unknown. namedAt is when each directory got its name. files are the
	// files in the log.
	until   int64
	namedAt map[string]int64
	files   map[[3]uint64]loggedFile
	// The record of a recent change may still be on its way, and only the record has the author.
	// So a path that differs from the log and has changed since pendingSince is put into later. The
	// scan looks at it again when its record must have arrived. pendingSince is 0 if changes are
	// not reported.
	pendingSince int64
	later        []entry
	settled      bool
}

// entry is a path in the source directory. If below is set, its subtree has not been examined
// either.
type entry struct {
	p          store.Path
	dir, below bool
}

// recent is the age up to which the record of a change may still be missing from the spool. The
// value is generous, because looking twice costs little.
const recent = 2 * time.Second

// found is a change to store. base is the number of the path's newest version before the file was
// read.
type found struct {
	c    store.Change
	base uint64
}

// dirItem is a name in a directory that is being walked. If below is set, it represents the content
// of the directory of that name.
type dirItem struct {
	name  string // ends with a slash if below is set
	dir   bool
	below bool
	stat  store.Stat // zero if unknown
}

// walk walks a directory in the order of the log's keys, in which "a.b" comes before the content of
// "a".
func (s *scanner) walk(ctx context.Context, p store.Path) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	all, err := s.list(p)
	if err != nil {
		if p == "" {
			return err
		}
		s.skipped(p, err)
		return nil
	}
	aside := map[store.Path]bool{} // directories in later, whose contents are walked later too
	for i := range all {
		e := &all[i]
		name := store.Path(path.Join(string(p), e.name))
		switch {
		case !e.below:
			if err := s.look(ctx, name, e.dir, e.stat); err != nil {
				return err
			}
			if n := len(s.later); n > 0 && s.later[n-1] == (entry{name, true, true}) {
				aside[name] = true
			}
		case !aside[name]:
			if err := s.walk(ctx, name); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *scanner) list(p store.Path) ([]dirItem, error) {
	f, err := source.OpenBeneath(s.dir, string(p), false)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	if err != nil {
		s.skipped(p, err)
	}
	all := make([]dirItem, 0, len(entries))
	for _, e := range entries {
		class := s.m.Class(path.Join(string(p), e.Name()), e.IsDir())
		if class == ignore.Excluded || class == ignore.Ignored && !e.IsDir() {
			continue
		}
		if e.IsDir() { // git may track files even in an ignored directory
			all = append(all, dirItem{name: e.Name() + "/", dir: true, below: true})
		}
		if class != ignore.Tracked {
			continue
		}
		n := dirItem{name: e.Name(), dir: e.IsDir()}
		if s.log != nil {
			n.stat, _ = source.StatIn(f, n.name) // on an error, look reads the stat
		}
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b dirItem) int { return strings.Compare(a.name, b.name) })
	return all, nil
}

// skipped records a gap for a path that cannot be read, unless it has disappeared in the meantime.
func (s *scanner) skipped(p store.Path, err error) {
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return
	}
	s.b.survey.Log.Warn("baseline", "path", onwire.Display(p), "err", err)
	s.b.survey.Ingest.Gap(store.Gap{Path: p, Time: time.Now().UnixNano(), Reason: "baseline: " + err.Error()})
}

// lookAgain looks once more at the paths in later.
func (s *scanner) lookAgain(ctx context.Context) error {
	if len(s.later) == 0 {
		return nil
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	rest := s.log
	later := s.later
	s.later, s.log = nil, nil // the listing has already passed these paths
	defer func() { s.log = rest }()
	for _, e := range later {
		if err := s.look(ctx, e.p, e.dir, store.Stat{}); err != nil {
			return err
		}
		if e.below {
			if err := s.walk(ctx, e.p); err != nil {
				return err
			}
		}
	}
	return s.flush(ctx)
}

// settle waits, once in a scan, until the log has everything that happened before the scan.
func (s *scanner) settle(ctx context.Context) error {
	if s.settled || s.pendingSince == 0 {
		return nil
	}
	s.settled, s.pendingSince = true, 0
	if !loop.Pause(ctx, ingest.RecordWait) {
		return ctx.Err()
	}
	return s.caughtUp(ctx)
}

// caughtUp waits until everything that is in the spool is in the log.
func (s *scanner) caughtUp(ctx context.Context) error {
	in, within := s.b.survey.Ingest, time.Minute
	if s.requested {
		within = ingest.QueryWait
	}
	for !in.WaitHead(ctx, within) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if ok, _ := in.Health(); s.requested && !ok {
			return errors.New(in.Behind())
		}
		if err := in.HeadError(); err != nil {
			return fmt.Errorf("look at the spool: %w", err)
		}
	}
	return nil
}

// look compares a path with the log. If they differ, it adds the path to the batch, or to later if
// the record of the change may still arrive. listed is the stat of the path that walk read, zero if
// unknown.
func (s *scanner) look(ctx context.Context, p store.Path, isDir bool, listed store.Stat) error {
	sv := s.b.survey
	if s.log != nil {
		v, err := s.log.find(p)
		if err != nil {
			return onwire.Error(err)
		}
		if isCurrent(v, listed) {
			s.counted(isDir, listed)
			return nil
		}
	}
	v, ok, err := sv.Store.Current(p)
	if err != nil {
		return onwire.Error(err)
	}
	st, target, err := source.LstatBeneath(s.dir, string(p))
	if err != nil {
		s.skipped(p, err)
		return nil
	}
	live, same := ok && !v.Deleted(), ok && isCurrent(v, st)
	if !same && s.pendingSince > 0 && st.Ctime >= s.pendingSince {
		s.later = append(s.later, entry{p, isDir, isDir && !live})
		return nil
	}
	if !same && s.settled && time.Now().UnixNano()-st.Ctime < int64(ingest.RecordWait) {
		return nil // it has changed since the scan waited, and the record of the change has the author
	}
	s.counted(isDir, st)
	if same {
		return nil
	}
	c := store.Change{Op: store.OpBaseline, Path: p, Stat: st, Time: time.Now().UnixNano(), Target: target}
	if live && !asLogged(v, st) {
		c.Op, c.Actor = store.OpOutside, attribution.Outsider // changed while nothing recorded changes
		if !sv.Mounted() {
			c.Op = store.OpSeen
		}
	}
	if s.collect {
		c.Time = lastChange(st, !live)
	}
	if !live && s.until > 0 {
		if err := s.classifyNew(&c); err != nil {
			return err
		}
	}
	if s.collect {
		return s.add(ctx, found{c, v.Seq})
	}
	if st.IsRegular() && !s.content(p, &c) {
		return nil
	}
	return s.add(ctx, found{c, v.Seq})
}

func (s *scanner) counted(isDir bool, st store.Stat) {
	if !isDir {
		s.b.count(func(w *wire.Baseline) { w.Total++; w.Files++; w.Bytes += st.Size })
	}
}

// isCurrent reports whether a tracked path with the stat st still matches its newest version v, and
// the log has its content or must not have it. A version that was made while the path was ignored does
// not match, because a search leaves it out.
func isCurrent(v store.Version, st store.Stat) bool {
	if v.Seq == 0 || v.Deleted() || v.Class != ignore.Tracked {
		return false
	}
	excluded := v.NoContent == "too large" || v.NoContent == store.NoContentPurged
	complete := v.Blob != (store.Hash{}) || excluded || !st.IsRegular()
	return complete && asLogged(v, st)
}

// asLogged reports whether a path with the stat st has not changed since its newest version v.
func asLogged(v store.Version, st store.Stat) bool {
	return !v.Foreign && source.SameContent(v.Stat, st) && v.Stat.Mode == st.Mode
}

func (s *scanner) add(ctx context.Context, f found) error {
	s.batch = append(s.batch, f)
	s.bytes += int64(len(f.c.Content))
	if s.collect {
		return nil
	}
	if len(s.batch) >= ingest.BatchChanges || s.bytes >= ingest.BatchBytes {
		return s.flush(ctx)
	}
	return nil
}

// content reads the file into c. It returns false if there is nothing to store.
func (s *scanner) content(p store.Path, c *store.Change) bool {
	if c.Stat.Size > limits.Content {
		c.NoContent = "too large"
		return true
	}
	f, err := source.OpenBeneath(s.dir, string(p), false)
	if err != nil {
		s.skipped(p, err)
		return false
	}
	defer f.Close()
	st, err := source.StatOf(f)
	if err != nil || !st.IsRegular() {
		return false
	}
	content, after, err := source.ReadStable(f, st)
	if err != nil {
		if errors.Is(err, wire.ErrTooLarge) {
			c.NoContent = "too large"
			return true
		}
		s.skipped(p, err)
		return false
	}
	c.Stat = after
	c.HasContent, c.Content = true, content
	return true
}

// flush stores the batch, except for paths that were written through the mount since they were
// read. The overlay itself saves the old contents of these paths. So flush first ingests everything
// spooled, and then stores a path only if the compared version is still its newest one.
func (s *scanner) flush(ctx context.Context) error {
	if len(s.batch) == 0 {
		return nil
	}
	sv := s.b.survey
	if err := s.caughtUp(ctx); err != nil {
		return err
	}
	for pause := ingest.RetryFirst; ; pause = min(2*pause, ingest.RetryLast) {
		err := sv.Ingest.Exclusive(func() error {
			changes := make([]store.Change, 0, len(s.batch))
			for _, f := range s.batch {
				v, _, err := sv.Store.Current(f.c.Path)
				if err == nil && v.Seq == f.base && !sv.Ingest.Writing(f.c.Path) && s.stillHas(f.c) {
					changes = append(changes, f.c)
				}
			}
			_, err := sv.Store.Apply(ctx, changes, nil)
			return err
		})
		if err == nil {
			sv.Changed()
			break
		}
		if ctx.Err() != nil || errors.Is(err, store.ErrClosed) || s.requested {
			return err
		}
		sv.Ingest.Unhealthy(err)
		if !loop.Pause(ctx, pause) {
			return ctx.Err()
		}
	}
	s.batch, s.bytes = s.batch[:0], 0
	runtime.Gosched() // let clients run first
	return nil
}

// stillHas reports whether a file still has the content that was read. Through the mount, it may
// have been written under another name, and the log may not know that both are one file.
func (s *scanner) stillHas(c store.Change) bool {
	if !c.HasContent || !s.b.survey.Mounted() {
		return true
	}
	st, _, err := source.LstatBeneath(s.dir, string(c.Path))
	return err == nil && source.SameContent(st, c.Stat)
}

// vanished adds deletions for live paths of the log that the scan has not found. They were deleted
// while nothing was mounted.
func (s *scanner) vanished(ctx context.Context) error {
	gone, err := s.log.missed(ctx)
	if err != nil {
		return onwire.Error(err)
	}
	if len(gone) > 0 {
		if err := s.settle(ctx); err != nil {
			return err
		}
	}
	// Delete children before their directories.
	for i := len(gone) - 1; i >= 0; i-- {
		v := gone[i]
		if _, _, err := source.LstatBeneath(s.dir, string(v.Path)); !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			continue // the path still exists, but is ignored now, for example
		}
		c := store.Change{Op: store.OpUnlink, Path: v.Path, Class: v.Class, Time: time.Now().UnixNano(), Actor: attribution.Outsider}
		if v.Stat.IsDir() {
			c.Op = store.OpRmdir
		}
		if s.collect {
			c.Time = s.goneAt(v.Path)
		}
		if err := s.add(ctx, found{c, v.Seq}); err != nil {
			return err
		}
	}
	return nil
}

// RequestScan requests a scan of every file, unless one has completed since the mount
// attached.
func (s *Survey) RequestScan() {
	if !s.Absent {
		s.baseline.request(false)
	}
}
