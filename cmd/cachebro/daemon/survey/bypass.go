package survey

import (
	"context"
	"errors"
	"os"
	"path"
	"slices"
	"syscall"

	"cachebro/cmd/cachebro/daemon/attribution"
	"cachebro/cmd/cachebro/daemon/ingest"
	"cachebro/cmd/cachebro/daemon/source"
	"cachebro/store"
	"cachebro/store/leaf/ignore"
	"cachebro/store/leaf/spool"
	"cachebro/store/onwire"
)

// RecordBypassed records the changes of paths that bypassed the mount. See ingest.Followers.
func (s *Survey) RecordBypassed(ctx context.Context, records []ingest.Bypass, apply func([]store.Change) bool) {
	changes := make([]ingest.Bypass, 0, len(records))
	for _, t := range records {
		switch {
		case t.Record.Kind == spool.KindDirty:
			s.baseline.introduced()
		case t.Record.Op == store.OpBaseline:
			s.baseline.expect()
		default:
			changes = append(changes, t)
		}
	}
	if len(changes) == 0 {
		return
	}
	sc, done, err := s.baseline.scanner(ctx)
	if err != nil {
		s.Log.Warn("changes that bypassed the mount cannot be examined", "err", err)
		return
	}
	defer done()
	b := bypassBatch{survey: s, scanner: sc, apply: apply, known: !s.baseline.complete().IsZero(), paths: map[store.Path]bool{}}
	for _, t := range changes {
		b.take(t)
	}
	b.flush()
}

// bypassBatch handles one batch of records. It takes from a record only the paths to look at and
// the author, and stores the present state of these paths. If a path has changed again since, the
// later change has a record and an author of its own.
type bypassBatch struct {
	survey  *Survey
	scanner *scanner
	apply   func([]store.Change) bool
	known   bool // the log has all files that existed when the mount began

	ingest.Bypass // the record that is being handled
	batch         []store.Change
	bytes         int
	paths         map[store.Path]bool // the paths in batch
}

func (b *bypassBatch) take(t ingest.Bypass) {
	b.Bypass = t
	if b.Actor.Comm == "" {
		b.Actor = attribution.Outsider
	}
	p, to := store.Path(t.Record.Path), store.Path(t.Record.Path2)
	if to == "" {
		b.look(p, t.Record.Stat)
		return
	}
	renamed := b.addRename(p, to)
	if !renamed {
		b.look(p, store.Stat{})
	}
	b.look(to, t.Record.Stat)
	if t.Record.Stat.IsDir() {
		b.compareTree(to) // files that were made in it just before the rename were not found at its old path
	}
}

func (b *bypassBatch) flush() {
	if len(b.batch) > 0 && !b.apply(b.batch) {
		b.survey.Log.Warn("changes that bypassed the mount are not stored", "changes", len(b.batch))
	}
	b.batch, b.bytes = nil, 0
	clear(b.paths)
}

func (b *bypassBatch) add(c store.Change) {
	c.Time, c.Actor = b.survey.foundAt(b.Record.Time), b.Actor
	b.batch = append(b.batch, c)
	b.bytes += len(c.Content)
	b.paths[c.Path] = true
	if len(b.batch) >= ingest.BatchChanges || b.bytes >= ingest.BatchBytes {
		b.flush()
	}
}

// current returns the newest version of a path, taking the batch into account.
func (b *bypassBatch) current(p store.Path) (v store.Version, live bool) {
	if b.paths[p] {
		b.flush()
	}
	v, ok, err := b.survey.Store.Current(p)
	if err != nil {
		b.survey.Log.Warn("the log cannot be read", "path", onwire.Display(p), "err", err)
	}
	return v, err == nil && ok && !v.Deleted()
}

// addRename adds a rename, if the tree confirms it.
func (b *bypassBatch) addRename(from, to store.Path) bool {
	b.flush()
	v, live := b.current(from)
	st, target, err := source.LstatBeneath(b.scanner.dir, string(to))
	if err != nil || !live || store.InodeOf(v.Stat) != store.InodeOf(st) || !b.lostFile(from, st) {
		return false
	}
	dir := st.IsDir()
	if b.scanner.m.Class(string(from), dir) != ignore.Tracked || b.scanner.m.Class(string(to), dir) != ignore.Tracked {
		return false
	}
	if !unchanged(v.Stat, st) {
		st = v.Stat // it was written since, and that change has its own record
	}
	b.add(store.Change{Op: store.OpRename, Path: from, Path2: to, Stat: st, Target: target})
	b.flush()
	return true
}

func (b *bypassBatch) isAbsent(p store.Path) bool {
	_, _, err := source.LstatBeneath(b.scanner.dir, string(p))
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// lostFile reports whether a path no longer has the file that it had before. The file that replaced
// it has its own record.
func (b *bypassBatch) lostFile(p store.Path, was store.Stat) bool {
	st, _, err := source.LstatBeneath(b.scanner.dir, string(p))
	return b.isAbsent(p) || err == nil && store.InodeOf(st) != store.InodeOf(was)
}

// look compares a path with the log. seen is the path's stat when the record was made, zero if
// the path did not exist.
func (b *bypassBatch) look(p store.Path, seen store.Stat) {
	v, live := b.current(p)
	st, target, err := source.LstatBeneath(b.scanner.dir, string(p))
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		if live && seen.Ino == 0 {
			b.addRemoval(v)
		}
		return
	case err != nil:
		b.scanner.skipped(p, err)
		return
	case !unchanged(seen, st) && !b.isNew(live, seen, st):
		return
	}
	appeared := !live || store.InodeOf(v.Stat) != store.InodeOf(st)
	full := st.IsDir() && b.Record.Op != store.OpMkdir
	emptied := live && v.Stat.IsDir() // another directory, with content, had the name before
	b.addPresent(p, v, live, st, target)
	if appeared && (full || emptied) {
		b.compareTree(p)
	}
}

// isNew reports whether the record says that the file was made, and the log does not have the file
// yet. Such a file is recorded even if it has been written since, because the records of the writes
// do not say that it is new.
func (b *bypassBatch) isNew(live bool, seen, now store.Stat) bool {
	return !live && b.Record.Op == store.OpCreate && store.InodeOf(seen) == store.InodeOf(now)
}

// unchanged reports whether both stats describe the same file, which was not written in between.
func unchanged(seen, now store.Stat) bool {
	return store.InodeOf(seen) == store.InodeOf(now) && (now.IsDir() || seen.Size == now.Size && seen.Mtime == now.Mtime)
}

// addPresent adds the present state of a path, if the log has another state.
func (b *bypassBatch) addPresent(p store.Path, v store.Version, live bool, st store.Stat, target string) {
	if live && isCurrent(v, st) || b.survey.Ingest.Writing(p) {
		return
	}
	c := store.Change{Op: store.OpOutside, Path: p, Stat: st, Target: target, Class: b.scanner.m.Class(string(p), st.IsDir())}
	if c.Class != ignore.Tracked {
		return // scans skip it, too
	}
	if !live && !b.addParent(p) {
		return
	}
	if live && asLogged(v, st) {
		c.Op = store.OpBaseline
	}
	if !live {
		c.Op = store.OpCreate
		if st.IsDir() {
			c.Op = store.OpMkdir
		}
		since, ok := b.survey.mount.reportsSince()
		if b.Record.Op == store.OpOutside || ok && !b.known && st.Birth < since {
			c.Op = store.OpBaseline // it existed before, but none of its content was stored
		}
	}
	if st.IsRegular() && !b.scanner.content(p, &c) {
		return
	}
	b.add(c)
}

// addParent adds the directory that contains p if the log does not have it, because records of
// different processes may arrive in the wrong order. It returns false if the directory was renamed.
// The record of the rename follows and covers p.
func (b *bypassBatch) addParent(p store.Path) bool {
	dir := p.Dir()
	if dir == "" {
		return true
	}
	v, live := b.current(dir)
	if live {
		return true
	}
	st, target, err := source.LstatBeneath(b.scanner.dir, string(dir))
	switch {
	case err != nil || !st.IsDir(): // p is gone, too, which another record reports
	case b.Record.Op == store.OpOutside && b.renamed(st):
		return false
	default:
		b.addPresent(dir, v, false, st, target)
	}
	return true
}

// renamed reports whether the log has the directory under another name, which no longer exists.
func (b *bypassBatch) renamed(st store.Stat) bool {
	b.flush()
	return slices.ContainsFunc(b.live(""), func(v store.Version) bool {
		return v.Stat.IsDir() && store.InodeOf(v.Stat) == store.InodeOf(st) && b.isAbsent(v.Path)
	})
}

// addRemoval adds deletions of a path and of everything in its subtree.
func (b *bypassBatch) addRemoval(v store.Version) {
	all := []store.Version{v}
	if v.Stat.IsDir() {
		b.flush()
		all = b.live(v.Path)
	}
	for _, v := range slices.Backward(all) { // children before their directories
		c := store.Change{Op: store.OpUnlink, Path: v.Path, Class: v.Class}
		if v.Stat.IsDir() {
			c.Op = store.OpRmdir
		}
		b.add(c)
	}
}

// live lists the log's live versions at a path and in its subtree.
func (b *bypassBatch) live(p store.Path) (all []store.Version) {
	err := b.survey.Store.Live(p, func(v store.Version) error {
		all = append(all, v)
		return nil
	})
	if err != nil {
		b.survey.Log.Warn("the log cannot be read", "path", onwire.Display(p), "err", err)
	}
	return all
}

// compareTree compares the subtree of a directory with the log.
func (b *bypassBatch) compareTree(dir store.Path) {
	b.flush()
	known := map[store.Path]store.Version{}
	for _, v := range b.live(dir) {
		known[v.Path] = v
	}
	present := map[store.Path]bool{dir: true}
	if st, _, err := source.LstatBeneath(b.scanner.dir, string(dir)); err == nil && st.IsDir() {
		b.walk(dir, known, present)
	}
	for _, v := range b.live(dir) {
		if !present[v.Path] && b.isAbsent(v.Path) {
			b.addRemoval(v)
		}
	}
}

func (b *bypassBatch) walk(dir store.Path, known map[store.Path]store.Version, present map[store.Path]bool) {
	entries, err := b.scanner.list(dir)
	if err != nil {
		b.scanner.skipped(dir, err)
		return
	}
	for _, e := range entries {
		p := store.Path(path.Join(string(dir), e.name))
		if e.below {
			b.walk(p, known, present)
			continue
		}
		present[p] = true
		st, target, err := source.LstatBeneath(b.scanner.dir, string(p))
		if err != nil {
			b.scanner.skipped(p, err)
			continue
		}
		v, live := known[p]
		b.addPresent(p, v, live, st, target)
	}
}
