package capture

import (
	"time"

	"cachebro/fusefs"
	"cachebro/store/leaf/event"
	"cachebro/store/leaf/ignore"
	"cachebro/store/leaf/limits"
	"cachebro/store/leaf/spool"
)

// Before saves the content that is about to be destroyed. Queued content is saved even if the file
// was renamed or has no name.
func (c *Capture) Before(ch fusefs.Change) {
	vanishes := ch.Op == event.OpUnlink || ch.Op == event.OpRename
	mark := ch.File.Mark()
	quit := &canceller{ch.Cancel, ch.Caller.TID}
	saved := c.settle(ch.File, quit, vanishes) || mark.Load()&markSafe != 0
	var p string
	var class ignore.Class
	if vanishes {
		p = ch.Name
		class = c.Class(p, false)
	} else {
		p, class = c.nameOf(ch.File, "")
	}
	if class == ignore.Excluded {
		c.gitBefore(ch, p, vanishes)
	}
	switch {
	case p == "":
	case !saved:
		c.saveUnknown(ch, quit, p, class, vanishes)
	case vanishes && class == ignore.Ignored:
		c.knownByOtherName(ch.File, p)
	}
	if vanishes {
		return
	}
	if len(ch.File.Paths(2)) > 1 { // record the other names that no scan has recorded
		if st, err := ch.File.Stat(); err == nil {
			c.FoundAll(ch.File, p, "", st)
		}
	}
	c.dirty(ch.File)
	mark.And(^markSafe)
}

// nameOf returns the name under which a file is recorded, and that name's class. nameOf prefers a
// tracked name to an ignored one, and an ignored name to an excluded one. It ignores the name in
// "except", and returns "" if no other name is known.
func (c *Capture) nameOf(f fusefs.File, except string) (name string, class ignore.Class) {
	class = ignore.Excluded
	for _, most := range []int{2, 0} { // nearly always, one of the first two names is tracked
		for _, p := range f.Paths(most) {
			cl := c.Class(p, false)
			if p != except && (name == "" || cl < class) {
				name, class = p, cl
			}
			if name != "" && class == ignore.Tracked {
				return name, class
			}
		}
	}
	return name, class
}

// unseen reports whether a file has names that no request has looked up. One of them may be
// tracked.
func unseen(f fusefs.File, st event.Stat) bool {
	return (st.Nlink > 1 || st.Nlink == 1 && f.Path() == "") && int(st.Nlink) > len(f.Paths(0))
}

// saveUnknown saves content that no version has, according to the file's marks.
func (c *Capture) saveUnknown(ch fusefs.Change, quit *canceller, p string, class ignore.Class, vanishes bool) {
	if class == ignore.Excluded && vanishes {
		return // other names, possibly tracked, still lead to the content
	}
	st, err := ch.File.Stat()
	if err != nil {
		c.opt.Logger.Debug("before", "path", p, "err", err)
		return
	}
	if class == ignore.Excluded && !unseen(ch.File, st) {
		return
	}
	if class == ignore.Ignored && c.opt.Matcher != nil && c.opt.Matcher.Forbidden(p, false) {
		return // the file was moved to a place where only names may be recorded
	}
	if class == ignore.Ignored || !c.scans.captured(p, st) {
		c.save(ch, quit, p, st, class, vanishes)
		if vanishes && st.Nlink > 1 {
			ch.File.Mark().And(^markSafe) // the content is saved only under the name that is being removed
		}
	}
}

// keepBaseline records the content of f as a baseline if no version has it.
func (c *Capture) keepBaseline(f fusefs.File, p string, class ignore.Class) {
	if class != ignore.Tracked || f.Mark().Load()&markSafe != 0 {
		return
	}
	st, err := f.Stat()
	if err != nil || !st.IsRegular() || c.scans.captured(p, st) {
		return
	}
	c.version(f, asFound(f, p, st, class), fusefs.Caller{}, true, false)
}

// asFound returns a record of a state in which a file was found. version adds the extended attributes.
func asFound(f fusefs.File, p string, st event.Stat, class ignore.Class) *spool.Record {
	return &spool.Record{Kind: spool.KindVersion, Op: event.OpBaseline, Class: class, Path: p, Node: f.ID(), Stat: st, Time: time.Now().UnixNano()}
}

// Found records the state of a name that no scan has recorded, such as an ignored name or the root.
// It does not save the content of regular files, because no operation is about to destroy it.
func (c *Capture) Found(f fusefs.File, name, target string, st event.Stat) {
	mark, several := f.Mark(), !st.IsDir() && st.Nlink > 1
	if mark.Load()&markFound != 0 && !several {
		return
	}
	listed := several && st.IsRegular()
	if listed && c.recorded.has(f, name) {
		return
	}
	class := c.Class(name, st.IsDir())
	if class == ignore.Excluded {
		return
	}
	root := name == "" // scans record what is in the root, but not the root itself
	if class == ignore.Tracked && !root && c.scans.captured(name, st) {
		if listed {
			c.recorded.add(f, name, st.Nlink)
		}
		return
	}
	r := asFound(f, name, withXattrs(f, st), class)
	r.Target = target
	unsaved := several && mark.Load()&markSafe == 0 // the file may be empty only because it is being written under another name
	if st.IsRegular() && (st.Size > 0 || unsaved) {
		r.Reason = spool.NotRead
	}
	if !c.append(r) {
		return
	}
	if !several { // if the file has several names, each one is recorded
		mark.Or(markFound)
	}
	if listed {
		c.recorded.add(f, name, st.Nlink)
	}
}

// ForgetFound makes the next call of Found record f again, because the history may have lost it since
// the last one. If the history has it, the record adds no version.
func ForgetFound(f fusefs.File) { f.Mark().And(^markFound) }

// knownByOtherName records the last name of an ignored file that is being removed or exchanged. The
// file's content is saved, but perhaps only under a name that was removed earlier.
func (c *Capture) knownByOtherName(f fusefs.File, p string) {
	if st, err := f.Stat(); err == nil && st.IsRegular() && st.Nlink < 2 { // a file with several names is recorded by Found
		r := asFound(f, p, withXattrs(f, st), ignore.Ignored)
		r.Reason = spool.NotRead
		c.append(r)
	}
}

// FoundAll calls Found for all names of a file except skip. The root, whose only name is "", is never
// skipped.
func (c *Capture) FoundAll(f fusefs.File, skip, target string, st event.Stat) {
	seen := f.NamesSeen()
	if c.recorded.complete(f, seen) {
		return
	}
	names := f.Paths(0)
	for _, p := range names {
		if p == "" || p != skip {
			c.Found(f, p, target, st)
		}
	}
	c.recorded.noteComplete(f, seen, names)
}

// save records content that has not been captured. Before a write, the whole content must be in the
// spool when save returns, because Before is not called again for later writes.
func (c *Capture) save(ch fusefs.Change, quit *canceller, p string, st event.Stat, class ignore.Class, vanishes bool) {
	if !st.IsRegular() {
		return
	}
	r := asFound(ch.File, p, st, class)
	limit := c.opt.MaxFile
	if class == ignore.Ignored {
		limit = limits.IgnoredContent
	}
	if st.Size > limit {
		r.TooLarge, r.Stat = true, withXattrs(ch.File, st)
		c.append(r)
		return
	}
	// Record the file in any case, so that an undo can name it.
	most := c.opt.IgnoredHourly
	if ch.Op == event.OpWrite { // a growing log must not use up the budget of removed files
		most /= 2
	}
	if class == ignore.Ignored && !c.spend(st.Size, most) {
		r.Reason = "the hourly budget for ignored files is spent"
	} else if !c.waitRoom(quit) {
		r.Reason = c.fullReason()
	}
	if r.Reason != "" {
		r.Stat = withXattrs(ch.File, st)
		c.append(r)
		c.gap(p, r.Seq, r.Reason)
		return
	}
	c.version(ch.File, r, fusefs.Caller{}, true, st.Size <= inlineSize)
	c.settle(ch.File, quit, vanishes) // copies small content on this thread
}
