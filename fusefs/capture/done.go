package capture

import (
	"errors"
	"syscall"
	"time"

	"cachebro/fusefs"
	"cachebro/store/leaf/attrs"
	"cachebro/store/leaf/event"
	"cachebro/store/leaf/gitdir"
	"cachebro/store/leaf/ignore"
	"cachebro/store/leaf/spool"
)

// Done records an operation on names or attributes.
func (c *Capture) Done(e fusefs.Event) {
	c.rule(e.Path)
	if e.Path2 != "" {
		c.rule(e.Path2)
	}
	if e.Class == ignore.Excluded || e.Class2 == ignore.Excluded || e.Op == event.OpRename {
		c.gitDone(e)
	}
	within := e.Class == ignore.Excluded && (e.Path2 == "" || e.Class2 == ignore.Excluded)
	if within && !inGit(e.Path2) {
		c.planned(e.Caller, e.Path, e.Stat.IsDir())
	}
	e.Class, e.Class2 = c.boundaryClass(e.Class, e.Path), c.boundaryClass(e.Class2, e.Path2)
	r := &spool.Record{Kind: spool.KindVersion, Op: e.Op, Class: e.Class, Path: e.Path, Path2: e.Path2, Target: e.Target, Stat: e.Stat, Time: e.Time.UnixNano()}
	if e.File != nil {
		r.Node = e.File.ID()
	}
	class := e.Class
	switch e.Op {
	case event.OpChmod, event.OpMkdir, event.OpRename, event.OpExchange, event.OpLink:
		if e.File != nil {
			if e.Op == event.OpChmod {
				e.File.Mark().And(^markBare)
			}
			r.Stat = withXattrs(e.File, e.Stat)
		}
	}
	switch e.Op {
	case event.OpCreate, event.OpMkdir, event.OpSymlink, event.OpMknod:
		if e.File != nil && e.Class != ignore.Excluded {
			e.File.Mark().Or(markFound)
		}
	}
	switch e.Op {
	case event.OpRename:
		c.renamed(e, r)
		return
	case event.OpExchange:
		c.exchanged(e, r)
		return
	case event.OpCreate: // the version is recorded when the file is closed
		if c.scans.running.Load() && e.File != nil {
			c.dirty(e.File)
		}
		return
	case event.OpLink:
		c.linked(e, r)
		return
	case event.OpChmod:
		if e.File != nil && !e.Stat.IsDir() && (class != ignore.Tracked || e.File.Path() == "") {
			r.Path, class = c.nameOf(e.File, "")
			r.Class = class
			if class == ignore.Excluded && unseen(e.File, e.Stat) {
				c.appendBy(e.Caller, r) // the store may have a tracked name of the file
			}
		}
	case event.OpUnlink:
		r.LastName = e.Stat.Nlink <= 1
		if class == ignore.Excluded && r.LastName {
			if _, rest, kind := c.git.place(e.Path); kind == gitdir.Nothing || rest != "" { // the removal of a .git file that points to a repository is recorded
				c.discarded.add(parent(e.Path), 1, e.Stat.Size)
			}
		}
		c.removedByPlan(e.File, e.Caller)
	case event.OpRmdir:
		c.forget(e.Path, false)
		c.boundary.removed(e.Path)
		// The directory may no longer be excluded, because the file that made it so was removed
		// first. In that case the count of deleted excluded files in it is not zero.
		if t := c.discarded.takeTally(e.Path); class == ignore.Excluded || t.files > 0 {
			c.discardedDir(e, r, t)
			return
		}
	}
	if class == ignore.Excluded {
		return
	}
	c.appendBy(e.Caller, r)
}

// linked records that a file got another name. The record contains one older name: a tracked name
// if there is one, else an ignored name, else an excluded name.
func (c *Capture) linked(e fusefs.Event, r *spool.Record) {
	older, from := c.nameOf(e.File, e.Path2)
	to := e.Class2
	if was := from; older != "" {
		r.Path, e.Path = older, older
		if c.crosses(e, &from, &to) {
			c.enterBoundary(e.Path, false, false)
			c.enterBoundary(e.Path2, false, false)
			c.recordExcluded(e.File, e.Path, e.Target, e.Stat, was)
		}
	}
	r.Class = to
	switch {
	case from == ignore.Excluded && to == ignore.Excluded:
		return
	case from == ignore.Excluded: // all older names are excluded, or there is none
		r.Op = event.OpCreate
		r.Path, r.Path2 = e.Path2, ""
		if e.Stat.IsRegular() {
			c.version(e.File, r, e.Caller, to == ignore.Tracked, false)
			return
		}
	case e.Stat.IsRegular():
		c.keepBaseline(e.File, r.Path, from)
	}
	// If the new name is excluded, the store records only the link count.
	if c.appendBy(e.Caller, r) && to != ignore.Excluded && e.Stat.IsRegular() {
		c.recorded.addNew(e.File, e.Path2, e.Stat.Nlink)
	}
	if from == ignore.Ignored && to == ignore.Tracked && e.Stat.IsRegular() {
		c.versionUnderNewName(e.File, e.Path2, e)
	}
}

// renamed records a rename, even if the two names are of different classes.
func (c *Capture) renamed(e fusefs.Event, r *spool.Record) {
	c.removedByPlan(e.Replaced, e.Caller)
	dir, regular := e.Stat.IsDir(), e.File != nil && e.Stat.IsRegular()
	from, to := c.Class(e.Path, dir), e.Class2
	if dir {
		c.recorded.clear()
		c.forget(e.Path, true)
		c.forget(e.Path2, true)
		c.scans.relocated(to == ignore.Tracked && (from != ignore.Tracked || moveMayReveal(c.opt.Matcher, e.Path, e.Path2)))
	}
	below := c.hasContents(e.Path, dir)
	c.boundary.moved(e.Path, e.Path2, false)
	wasFrom, wasTo := from, to
	if c.crosses(e, &from, &to) {
		c.recordExcluded(e.File, e.Path, e.Target, e.Stat, wasFrom)
		c.enterBoundary(e.Path, dir, false)
		c.enterBoundary(e.Path2, dir, below)
	}
	if regular && wasTo == ignore.Excluded && wasFrom == ignore.Ignored && e.File.Mark().Load()&markSafe == 0 { // after the move, capture may not see the file again
		c.save(fusefs.Change{File: e.File, Op: e.Op}, &canceller{ch: c.stop}, e.Path, e.Stat, wasFrom, false)
	}
	switch {
	case from == ignore.Excluded && to == ignore.Excluded:
	case from == ignore.Excluded: // the file comes from an excluded directory, so it is a new file or new content
		r.Path, r.Path2 = e.Path2, ""
		r.Class = to
		// The file is new content of the replaced one only if neither has other names. Otherwise an undo
		// would also change the new file under its other names, or not know the former content.
		saved := regular && e.Replaced != nil && e.Stat.Nlink < 2 && e.ReplacedStat.Nlink < 2
		if e.Replaced != nil && !saved {
			gone := &spool.Record{Kind: spool.KindVersion, Op: event.OpUnlink, Class: to, Path: e.Path2, Node: e.Replaced.ID(), Stat: e.ReplacedStat, LastName: e.ReplacedStat.Nlink <= 1, Time: r.Time}
			if dir {
				gone.Op = event.OpRmdir
			}
			c.appendBy(e.Caller, gone)
		}
		switch {
		case dir:
			r.Op = event.OpMkdir
		case saved:
			r.Op = event.OpWrite
		default:
			r.Op = event.OpCreate
		}
		if regular {
			c.version(e.File, r, e.Caller, to == ignore.Tracked, false)
			return
		}
		c.appendBy(e.Caller, r)
	case to == ignore.Excluded: // the file gets an excluded name
		if regular {
			c.keepBaseline(e.File, e.Path, from)
		}
		r.Op, r.LastName = event.OpUnlink, true
		r.Path2, r.Class = "", from
		if dir {
			r.Op, r.Reason = event.OpRmdir, movedToExcluded
		}
		c.appendBy(e.Caller, r)
	default:
		known := regular && from == ignore.Ignored && to == ignore.Tracked && c.versionUnderOldName(e.File, e.Path)
		if regular && from == ignore.Tracked {
			c.keepBaseline(e.File, e.Path, from)
		}
		r.Class = to
		c.appendBy(e.Caller, r)
		if regular && from == ignore.Ignored && to == ignore.Tracked && !known {
			c.versionUnderNewName(e.File, e.Path2, e)
		}
	}
}

// movedToExcluded is the reason recorded for a directory that was moved to an excluded name. Its
// ignored files may never have been recorded.
const movedToExcluded = "it was moved to where nothing is recorded; its ignored files may be missing from the history"

// versionUnderOldName makes a version of content that had an ignored name and is in no version. The
// version has the old name, because an undo of the rename looks for it under that name.
// versionUnderOldName returns false for a file that was made after the mount began, because its
// writer may not have finished.
func (c *Capture) versionUnderOldName(f fusefs.File, p string) bool {
	st, err := f.Stat()
	if err != nil || !st.IsRegular() || st.Birth == 0 || st.Birth > c.stateSince.UnixNano() {
		return false
	}
	if f.Mark().Load()&markSafe == 0 {
		c.version(f, asFound(f, p, st, ignore.Ignored), fusefs.Caller{}, true, false)
	}
	return true
}

// exchanged records that two names were exchanged. Content that has no version gets one if its new
// name is tracked.
func (c *Capture) exchanged(e fusefs.Event, r *spool.Record) {
	from, to := c.Class(e.Path, e.Stat.IsDir()), e.Class2
	var other event.Stat // the state of the file that had the second name
	if e.Replaced != nil {
		st, err := e.Replaced.Stat()
		if err == nil { // an ignore rule may be for directories only
			other, to = st, c.Class(e.Path2, st.IsDir())
		}
	}
	below, otherBelow := c.hasContents(e.Path, e.Stat.IsDir()), c.hasContents(e.Path2, other.IsDir())
	c.boundary.moved(e.Path, e.Path2, true)
	if was, is := from, to; other.Ino != 0 && c.crosses(e, &from, &to) {
		c.recordExcluded(e.Replaced, e.Path2, e.OtherTarget, other, is)
		c.enterBoundary(e.Path, other.IsDir(), otherBelow)
		c.recordExcluded(e.File, e.Path, e.Target, e.Stat, was)
		c.enterBoundary(e.Path2, e.Stat.IsDir(), below)
	}
	if from == ignore.Excluded && to == ignore.Excluded {
		return
	}
	if from == ignore.Excluded || to == ignore.Excluded {
		c.forget(e.Path, true)
		c.forget(e.Path2, true)
		if to == ignore.Excluded {
			c.swapped(e, e.Path, from, e.File, e.Replaced, e.OtherTarget)
		} else {
			c.swapped(e, e.Path2, to, e.Replaced, e.File, e.Target)
		}
		return
	}
	c.forget(e.Path, true)
	c.forget(e.Path2, true)
	c.scans.relocated(from != to || moveMayReveal(c.opt.Matcher, e.Path, e.Path2) || moveMayReveal(c.opt.Matcher, e.Path2, e.Path))
	if from == ignore.Ignored && to == ignore.Tracked && e.File != nil {
		c.versionUnderOldName(e.File, e.Path)
	}
	if from == ignore.Tracked && to == ignore.Ignored && e.Replaced != nil {
		c.versionUnderOldName(e.Replaced, e.Path2)
	}
	if e.File != nil {
		c.keepBaseline(e.File, e.Path, from)
	}
	if e.Replaced != nil {
		c.keepBaseline(e.Replaced, e.Path2, to)
	}
	if from == ignore.Ignored && e.File != nil {
		c.knownByOtherName(e.File, e.Path)
	}
	if to == ignore.Ignored && e.Replaced != nil {
		c.knownByOtherName(e.Replaced, e.Path2)
	}
	r.Class = min(from, to)
	c.appendBy(e.Caller, r)
	if from == to {
		return
	}
	if to == ignore.Tracked && e.File != nil && e.Stat.IsRegular() {
		c.versionUnderNewName(e.File, e.Path2, e)
	}
	if from == ignore.Tracked && e.Replaced != nil {
		c.versionUnderNewName(e.Replaced, e.Path, e)
	}
}

// swapped records the exchange of the name p with an excluded name. before is the file that had the
// name p, and after is the file that has it now. If after is a symlink, target is where it points.
func (c *Capture) swapped(e fusefs.Event, p string, class ignore.Class, before, after fusefs.File, target string) {
	was, err := before.Stat()
	if err != nil {
		c.opt.Logger.Debug("exchanged", "path", p, "err", err)
		return
	}
	c.keepBaseline(before, p, class)
	r := &spool.Record{Kind: spool.KindVersion, Op: event.OpUnlink, Class: class, Path: p, Node: before.ID(), Stat: was, Time: e.Time.UnixNano(), LastName: true}
	if was.IsDir() {
		r.Op, r.Reason = event.OpRmdir, movedToExcluded
	}
	c.appendBy(e.Caller, r)
	is, err := after.Stat()
	if err != nil {
		c.opt.Logger.Debug("exchanged", "path", p, "err", err)
		return
	}
	r = &spool.Record{Kind: spool.KindVersion, Op: event.OpCreate, Class: class, Path: p, Target: target, Node: after.ID(), Stat: is, Time: e.Time.UnixNano()}
	switch {
	case is.IsDir():
		r.Op = event.OpMkdir
		c.scans.relocated(class == ignore.Tracked)
	case is.IsRegular():
		c.version(after, r, e.Caller, class == ignore.Tracked, false)
		return
	}
	r.Stat = withXattrs(after, is)
	c.appendBy(e.Caller, r)
}

// versionUnderNewName makes a version of content that got a tracked name.
func (c *Capture) versionUnderNewName(f fusefs.File, p string, e fusefs.Event) {
	st, err := f.Stat()
	if err != nil || !st.IsRegular() {
		return
	}
	c.version(f, &spool.Record{Kind: spool.KindVersion, Op: event.OpWrite, Class: ignore.Tracked, Path: p,
		Node: f.ID(), Stat: st, Time: e.Time.UnixNano()}, e.Caller, true, false)
}

// discardedDir counts the files that were removed with an excluded directory. If the directory is
// the topmost excluded one, or is in the history, discardedDir records the removal in a notice and
// a version, so that an undo can name the directory.
func (c *Capture) discardedDir(e fusefs.Event, r *spool.Record, t tally) {
	if t.files == 0 {
		return // nothing was lost; for example, a sandbox makes an empty .git around each command
	}
	if !c.boundary.has(e.Path) {
		r.Class = ignore.Excluded
		if !c.opaque(e.Path) {
			c.discarded.add(parent(e.Path), t.files, t.bytes)
			return
		}
	}
	if _, _, kind := c.git.place(e.Path); kind != gitdir.Nothing {
		r.Reason = t.String() + ": git's own; restore with: cachebro undo --git"
		c.appendBy(e.Caller, r)
		return
	}
	r.Reason = t.String() + ": excluded from the history"
	c.appendBy(e.Caller, r, &spool.Record{Kind: spool.KindNotice, Path: e.Path, Time: e.Time.UnixNano(), Reason: e.Path + " (excluded) was deleted; its content is not in the history"})
}

// rule tells the matcher that a file with ignore rules changed. If ignored files may be tracked now,
// earlier scans no longer count, because they skipped these files. A tracked directory that the new
// rules exclude counts as one that was moved to an excluded name.
func (c *Capture) rule(p string) {
	if c.opt.Matcher == nil || !ignore.IsRuleFile(p) {
		return
	}
	nowExcluded, mayReveal := c.opt.Matcher.Reload(p)
	for _, dir := range nowExcluded {
		c.boundary.add(dir, true)
	}
	if mayReveal {
		c.scans.relocated(true)
	}
}

// moveMayReveal reports whether the rename of a directory may turn ignored files in it into tracked
// ones.
func moveMayReveal(m *ignore.Matcher, from, to string) bool {
	return m != nil && m.MoveMayReveal(from, to)
}

// forget tells the matcher that a directory with its rules was removed or moved.
func (c *Capture) forget(p string, andBelow bool) {
	if c.opt.Matcher != nil {
		c.opt.Matcher.Forget(p, andBelow)
	}
}

// Class returns the class of a name. An excluded name that is in the history counts as ignored.
func (c *Capture) Class(p string, dir bool) ignore.Class {
	return c.boundaryClass(c.classByRules(p, dir), p)
}

// classByRules returns the class that the ignore rules give a name.
func (c *Capture) classByRules(p string, dir bool) ignore.Class {
	if c.opt.Matcher == nil {
		return ignore.Tracked
	}
	return c.opt.Matcher.Class(p, dir)
}

func parent(p string) string {
	for i := len(p) - 1; i >= 0; i-- {
		if p[i] == '/' {
			return p[:i]
		}
	}
	return ""
}

// Watched sets whether Beside is called for every change that bypasses the mount.
func (c *Capture) Watched(on bool) { c.watched.Store(on) }

// Beside records that a path was changed without going through the mount. The daemon reads the new
// state of p later. st is the state in which p was seen, or zero if p did not exist. op says what
// is known:
//
// - OpRename: p was renamed to newPath
// - OpMkdir: p is a new, empty directory
// - OpCreate: p is new
// - OpOutside: p changed in another way
func (c *Capture) Beside(by fusefs.Caller, op event.Op, p, newPath string, st event.Stat) {
	class, dir := c.Class(p, st.IsDir()), st.IsDir() || st.Mode == 0
	c.rule(p)
	if newPath != "" {
		c.rule(newPath)
		class = min(class, c.Class(newPath, st.IsDir()))
	}
	if dir && op != event.OpMkdir {
		c.recorded.clear()
		c.forget(p, true)
		if newPath != "" {
			c.forget(newPath, true)
			c.scans.relocated(class != ignore.Excluded)
		}
	}
	if class == ignore.Excluded {
		return
	}
	c.appendBy(by, &spool.Record{Kind: spool.KindBeside, Op: op, Class: class, Path: p, Path2: newPath, Stat: st, Time: time.Now().UnixNano()})
}

// attributes returns the extended attributes of f as a version stores them, or "" if read fails.
// markBare records that a file has none.
func attributes(f fusefs.File, read func() (attrs.Set, error)) string {
	mark := f.Mark()
	if mark.Load()&markBare != 0 {
		return string(attrs.None)
	}
	set, err := read()
	if err != nil {
		return ""
	}
	if set == attrs.None {
		mark.Or(markBare)
	}
	return string(set)
}

// readAttributes reads the extended attributes of f.
func readAttributes(f fusefs.File) (set attrs.Set, err error) {
	err = f.At(func(path string) error { set = attrs.Read(path); return nil })
	if errors.Is(err, syscall.ENOTSUP) {
		var fd int
		fd, err = f.Open()
		if err == nil {
			set = attrs.ReadFD(fd)
			syscall.Close(fd)
		}
	}
	return set, err
}

// withXattrs returns st with the extended attributes of f, unless st has them already.
func withXattrs(f fusefs.File, st event.Stat) event.Stat {
	if f != nil && st.Attrs == "" && !st.IsLink() {
		st.Attrs = attributes(f, func() (attrs.Set, error) { return readAttributes(f) })
	}
	return st
}
