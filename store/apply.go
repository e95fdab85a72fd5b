package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"cachebro/store/leaf/attrs"
	"cachebro/store/leaf/event"

	"golang.org/x/sys/unix"
)

// Apply turns changes into versions, in order, and stores the checkpoint with them. The batch is
// stored whole or not at all. After an error (ErrNoSpace, BaseError, ErrDamaged …) the caller may
// pass the same batch again. A nil checkpoint leaves the old one unchanged. If the checkpoint
// equals the stored one, the batch is already stored and Apply does nothing.
//
// Apply returns the new versions. An unchanged file gets none. The versions of the paths in a
// renamed directory are not returned. The store keeps references to the contents, so the caller
// must not modify them afterwards.
func (s *Store) Apply(ctx context.Context, cs []Change, checkpoint []byte) ([]Version, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	if s.db.Closed() {
		return nil, ErrClosed
	}
	if checkpoint != nil && string(checkpoint) == string(s.next.Checkpoint) {
		return nil, nil
	}
	var need int64
	for i := range cs {
		need += int64(len(cs[i].Content)) + 1024
	}
	if err := s.roomFor(need); err != nil {
		return nil, err
	}
	b := s.newBatch()
	defer b.discard()
	if err := b.changes(ctx, cs); err != nil {
		return nil, err
	}
	if checkpoint != nil {
		b.next.Checkpoint = append([]byte(nil), checkpoint...)
	}
	if err := b.commit(); err != nil {
		return nil, err
	}
	now := s.opt.Now()
	s.applied.Store(now.UnixNano())
	if err := s.room.NoteWrote(now); err != nil {
		s.opt.Log.Warn("note the time of writing", "err", err) // until the next write, the idle time is overestimated
	}
	return b.made, nil
}

// Check does everything that Apply does with the changes except the commit. If a change is
// refused, it returns an error and the index of that change.
func (s *Store) Check(ctx context.Context, cs []Change) (int, error) {
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	if s.db.Closed() {
		return 0, ErrClosed
	}
	b := s.newBatch()
	defer b.discard()
	err := b.changes(ctx, cs)
	return b.index, err
}

// changes makes the versions of all changes. b.index is the index of the current change.
func (b *batch) changes(ctx context.Context, cs []Change) error {
	paths := make([]Path, 0, len(cs))
	for i := range cs {
		paths = append(paths, cleaned(cs[i].Path), cleaned(cs[i].Path2))
	}
	if err := b.preload(paths); err != nil {
		return err
	}
	for i := range cs {
		if i%64 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		b.index = i
		if err := b.change(&cs[i], i); err != nil {
			return fmt.Errorf("apply %q: %w", string(cs[i].Path), err)
		}
	}
	return nil
}

// roomFor returns an error if the file system has too little room for a batch, and stores the
// reason in s.stopped for status. The caller holds writeMu.
func (s *Store) roomFor(n int64) error {
	err := s.room.Check(n)
	switch {
	case err == nil:
		if *s.stopped.Swap(new(string)) != "" {
			s.room.Refill()
		}
	case s.Stopped() == "":
		why := err.Error()
		s.stopped.Store(&why)
		s.opt.Log.Warn("storing stopped", "reason", err)
	}
	return err
}

// Stopped returns why Apply refuses to store, or "" if it does not refuse.
func (s *Store) Stopped() string { return *s.stopped.Load() }

// change makes the versions of one change.
func (b *batch) change(c *Change, i int) error {
	c.Path, c.Path2 = cleaned(c.Path), cleaned(c.Path2)
	if kept, err := b.byKnownName(c); err != nil || !kept {
		return err
	}
	if err := b.replacedUnseen(c); err != nil {
		return err
	}
	if err := b.removedUnseen(c); err != nil {
		return err
	}
	switch c.Op {
	case OpCreate, OpWrite, OpTruncate, OpBaseline, OpOutside, OpSeen:
		return b.write(c, i)
	case OpSymlink, OpMkdir, OpMknod:
		return b.plain(c)
	case OpChmod:
		return b.chmod(c)
	case OpUnlink, OpRmdir:
		return b.remove(c)
	case OpRename:
		return b.rename(c)
	case OpExchange:
		return b.exchange(c)
	case OpLink:
		return b.link(c)
	}
	return fmt.Errorf("operation %d cannot be stored", c.Op)
}

// byKnownName handles a change of content or mode that was made through an untracked name of a file
// with several names. It redirects the change to a tracked name of the file. A change made through
// an excluded name, or through a removed one (""), may also go to an ignored name. It returns false
// if the history has no such name.
func (b *batch) byKnownName(c *Change) (bool, error) {
	if c.Class == event.Tracked {
		return true, nil
	}
	switch c.Op {
	case OpWrite, OpTruncate, OpOutside, OpChmod:
	case OpBaseline, OpCreate: // these do not prove that the file was written through this name
		if c.Class != event.Excluded {
			return true, nil
		}
	default:
		return true, nil
	}
	gone := c.Path == ""
	if (c.Stat.Nlink > 1 || gone) && !c.Stat.IsDir() {
		if is, live, err := b.live(c.Path); err != nil || !gone && live && InodeOf(is.Stat) != InodeOf(c.Stat) {
			return err == nil, err // the file was moved or linked to this name, but not written through it
		}
		best, class := Path(""), c.Class
		for cur, err := range b.others(c.Stat, c.Path) {
			if err != nil {
				return false, err
			}
			if cur.Class < class {
				best, class = cur.Path, cur.Class
			}
		}
		if class < c.Class {
			if c.Op == OpCreate { // the file was not created under the tracked name
				c.Op = OpWrite
			}
			c.Path, c.Class = best, class
			return true, nil
		}
		if c.Class == event.Excluded && c.Op != OpBaseline && c.Op != OpCreate && !gone {
			return false, b.noteUnknownNames(c)
		}
	}
	return c.Class != event.Excluded, nil
}

// noteUnknownNames records a change of an excluded file that also has names unknown to the store.
// An undo mentions the change, because such a name may be in the project.
func (b *batch) noteUnknownNames(c *Change) error {
	v := c.version(c.Path, c.Op)
	v.Stat.Attrs = ""
	v.NoContent = "excluded from the history; the file also has names that are not known, through which it changed"
	_, err := b.add(v)
	return err
}

// cleaned cuts a path off at its first NUL, because a path with a NUL could form the key of another
// path. Paths are otherwise cleaned where they enter the program.
func cleaned(p Path) Path {
	for i := 0; i < len(p); i++ {
		if p[i] == 0 {
			return p[:i]
		}
	}
	return p
}

// version returns a version of path p with the fields that the change provides.
func (c *Change) version(p Path, op Op) Version {
	return Version{
		Path: p, Op: op, Class: c.Class, Time: c.Time, Stat: c.Stat,
		Actor: c.Actor, Plan: c.Plan, Idle: c.Idle,
	}
}

// inheritContent copies the content of another version into v. It is used for files that were not
// read again.
func (v *Version) inheritContent(was Version) {
	v.Blob, v.NoContent = was.Blob, was.NoContent
	v.Target, v.Foreign = was.Target, was.Foreign
	v.Stat.Attrs = cmp.Or(v.Stat.Attrs, was.Stat.Attrs)
}

// isRegular reports whether a version is of a regular file. A version without a mode counts as one.
func isRegular(st Stat) bool { return st.IsRegular() || st.Mode&unix.S_IFMT == 0 }

// write records a regular file with its new content, or with the reason why its content is missing.
// A baseline may also describe a link or directory, which plain records.
func (b *batch) write(c *Change, i int) error {
	if !isRegular(c.Stat) {
		return b.plain(c)
	}
	cur, live, err := b.live(c.Path)
	if err != nil {
		return err
	}
	if c.NotRead {
		if !live || InodeOf(cur.Stat) != InodeOf(c.Stat) {
			_, err = b.wasThere(c, c.NoContent)
		}
		return err
	}
	v := c.version(c.Path, c.Op)
	if c.HasContent {
		v.Blob, err = b.store(c, i, cur)
		if err != nil {
			return err
		}
	} else {
		v.NoContent = c.NoContent
		b.forget(c.Node)
		switch {
		case c.NoContent == "" && c.Stat.Size == 0:
			v.Blob, err = b.put(nil, Version{})
			if err != nil {
				return err
			}
		case c.Op == OpBaseline && live && unwritten(cur, c.Stat):
			v.NoContent = ""
			v.Blob, v.Foreign = cur.Blob, cur.Foreign
		case c.Stat.Nlink > 1 && (!live || InodeOf(cur.Stat) != InodeOf(c.Stat)): // the file was linked or renamed to this name
			was, ok, err := b.byOtherName(c, func(o Version) bool { return unwritten(o, c.Stat) })
			if err != nil {
				return err
			}
			if ok {
				v.NoContent = ""
				v.Blob, v.Foreign = was.Blob, was.Foreign
			}
		}
	}
	unchanged := live && same(cur, v) && !FoundNew(cur, v)
	if unchanged {
		err = b.refresh(cur, v)
	} else {
		_, err = b.add(v)
	}
	if err == nil {
		err = b.countArrival(c, cur, live)
	}
	if err != nil || unchanged || c.Stat.Nlink < 2 {
		return err
	}
	return b.otherNames(v, func(cur Version) bool {
		return sameContent(cur, v) && cur.Stat.Mode == v.Stat.Mode && sameRights(cur, v)
	})
}

// countArrival adjusts the link counts of both files when one replaces the other at a path.
func (b *batch) countArrival(c *Change, was Version, live bool) error {
	if c.Stat.Ino == 0 || live && InodeOf(was.Stat) == InodeOf(c.Stat) {
		return nil
	}
	if live {
		if err := b.countNames(was.Stat, -1, 0); err != nil {
			return err
		}
	}
	return b.countNames(c.Stat, 0, 0)
}

// clockStep is longer than the resolution of any file system's timestamps, in ns.
const clockStep = int64(20e6)

// unwritten reports whether a file that has become unreadable still has the content that was
// captured last, because nobody has written to it since. It returns false if the content was
// captured within clockStep of a write, because a further write could have left the mtime
// unchanged.
func unwritten(cur Version, st Stat) bool {
	return cur.Blob != (Hash{}) && InodeOf(cur.Stat) == InodeOf(st) && cur.Stat.Size == st.Size &&
		cur.Stat.Mtime == st.Mtime && max(cur.Time, cur.Taken)-st.Mtime > clockStep
}

// FoundNew reports whether v is the creation of a file that a scan had already recorded in version
// found. It returns false for a file that had several names when it was found, because the store
// repeats each version of such a file under its other names. The link count of v is not checked,
// because it may include names that were made later.
func FoundNew(found, v Version) bool {
	if v.Op != OpCreate || found.Op != OpBaseline || found.Stat.Nlink > 1 {
		return false
	}
	return found.Stat.Ino != 0 && InodeOf(found.Stat) == InodeOf(v.Stat)
}

// sameRights reports whether owner and attributes are equal. An unknown value equals any other.
func sameRights(cur, v Version) bool {
	known := cur.Stat.Ino != 0 && v.Stat.Ino != 0 && !cur.Foreign && !v.Foreign
	return (!known || cur.Stat.UID == v.Stat.UID && cur.Stat.GID == v.Stat.GID) && attrs.Set(cur.Stat.Attrs).Same(attrs.Set(v.Stat.Attrs))
}

// same reports whether v has the same kind, mode, owner and content as cur, the newest version.
func same(cur, v Version) bool {
	known := v.Blob != (Hash{}) || v.Stat.IsDir() || v.Stat.IsLink()
	if !known || cur.Blob != v.Blob || cur.Target != v.Target {
		return false
	}
	return cur.Class == v.Class && cur.Stat.Mode == v.Stat.Mode && sameRights(cur, v)
}

// sameContent reports whether two versions of existing files have the same kind and content.
// Regular files without a stored content are compared by size and mtime.
func sameContent(a, b Version) bool {
	switch {
	case isRegular(a.Stat) && isRegular(b.Stat):
		return a.Blob == b.Blob && (a.Blob != Hash{} || a.Stat.Size == b.Stat.Size && a.Stat.Mtime == b.Stat.Mtime)
	case a.Stat.IsLink() && b.Stat.IsLink():
		return a.Target == b.Target
	}
	return a.Stat.Mode&unix.S_IFMT == b.Stat.Mode&unix.S_IFMT
}

// others returns the newest versions of the live names of a file except the given one.
func (b *batch) others(st Stat, except Path) iter.Seq2[Version, error] {
	return living(b, b.names(st, except), st)
}

// living returns the newest versions of those paths that are names of a file now.
func living(b *batch, names []Path, st Stat) iter.Seq2[Version, error] {
	return func(yield func(Version, error) bool) {
		for _, p := range names {
			cur, live, err := b.live(p)
			if (err != nil || live && InodeOf(cur.Stat) == InodeOf(st)) && !yield(cur, err) {
				return
			}
		}
	}
}

// otherNames repeats a change for the other hard links of the inode. as reports whether a name has
// the new state already.
func (b *batch) otherNames(v Version, as func(cur Version) bool) error {
	names := b.names(v.Stat, v.Path)
	if err := b.preload(names); err != nil {
		return err
	}
	b.made = slices.Grow(b.made, len(names))
	for cur, err := range living(b, names, v.Stat) {
		if err != nil {
			return err
		}
		if as(cur) {
			continue
		}
		o := v
		o.Path, o.Class = cur.Path, cur.Class
		o.Prev = 0
		if v.Op == OpChmod {
			o.inheritContent(cur)
		}
		if _, err := b.add(o); err != nil {
			return err
		}
	}
	return nil
}

// byOtherName looks at the other live names of the change's file and returns the first
// version that has content and satisfies ok.
func (b *batch) byOtherName(c *Change, ok func(Version) bool) (Version, bool, error) {
	for cur, err := range b.others(c.Stat, c.Path) {
		if err != nil || cur.Blob != (Hash{}) && ok(cur) {
			return cur, err == nil, err
		}
	}
	return Version{}, false, nil
}

// byLostName finds the name that the change's file lost most recently, and returns its last
// version. It returns false if that version has no content or the file was written to since.
func (b *batch) byLostName(c *Change) (Version, bool, error) {
	var last Version
	for _, p := range b.names(c.Stat, c.Path) {
		gone, _, err := b.live(p)
		if err != nil {
			return last, false, err
		}
		if gone.Op != OpUnlink || InodeOf(gone.Stat) != InodeOf(c.Stat) || gone.Seq < last.Seq || gone.Prev == 0 {
			continue
		}
		before, err := b.version(gone.Prev)
		if errors.Is(err, ErrNotFound) { // dropped from the log
			continue
		}
		if err != nil {
			return last, false, err
		}
		last = before
	}
	return last, last.Blob != (Hash{}) && InodeOf(last.Stat) == InodeOf(c.Stat) && last.Stat.Size == c.Stat.Size && last.Stat.Mtime == c.Stat.Mtime, nil
}

// plain records a directory, symlink, device or FIFO.
func (b *batch) plain(c *Change) error {
	cur, live, err := b.live(c.Path)
	if err != nil {
		return err
	}
	v := c.version(c.Path, c.Op)
	v.Target = c.Target
	if live && same(cur, v) && !slices.Contains([]Op{OpSymlink, OpMkdir, OpMknod}, c.Op) {
		return b.refresh(cur, v)
	}
	_, err = b.add(v)
	return err
}

// chmod records a new mode, owner or attributes, or the time that a plan gives a file; content,
// target and class stay the same.
func (b *batch) chmod(c *Change) error {
	cur, live, err := b.live(c.Path)
	if err != nil {
		return err
	}
	v := c.version(c.Path, OpChmod)
	switch {
	case c.HasContent:
		v.Blob, err = b.store(c, -1, cur)
		if err != nil {
			return err
		}
	case live:
		v.inheritContent(cur)
	default:
		v.NoContent = c.NoContent
		if v.NoContent == "" && isRegular(c.Stat) && c.Stat.Size > 0 {
			v.NoContent = "not captured before its mode was changed"
		}
	}
	timed := v.Plan != "" && isRegular(v.Stat) && cur.Stat.Mtime != v.Stat.Mtime // a plan's change of the time needs a version, so that it can be undone too
	if live && same(cur, v) && !timed {
		return b.refresh(cur, v)
	}
	_, err = b.add(v)
	if err != nil || c.Stat.Nlink < 2 || c.Stat.IsDir() {
		return err
	}
	return b.otherNames(v, func(cur Version) bool {
		return cur.Stat.Mode == v.Stat.Mode && sameRights(cur, v) && !timed
	})
}

// Found is a version that was stored without its content, and that content.
type Found struct {
	Version Version
	Content []byte
}

// Fill stores the contents of versions that have none. It skips versions that are not the newest of
// their path. After ErrTooLarge or ErrNoSpace nothing is stored.
func (s *Store) Fill(ctx context.Context, fs []Found) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var need int64
	for _, f := range fs {
		need += int64(len(f.Content)) + 1024
	}
	return s.write(func(b *batch) error {
		if err := s.roomFor(need); err != nil {
			return err
		}
		for _, f := range fs {
			v, live, err := b.live(f.Version.Path)
			if err != nil {
				return err
			}
			if !live || v.Seq != f.Version.Seq || v.Blob != (Hash{}) || !isRegular(v.Stat) {
				continue
			}
			v.Blob, err = b.put(f.Content, v)
			if err != nil {
				return fmt.Errorf("content of %q: %w", string(v.Path), err)
			}
			v.NoContent, v.Taken = "", s.opt.Now().UnixNano()
			b.contents.Refer(v.Blob)
			if err := b.rewrite(v); err != nil {
				return err
			}
		}
		return nil
	})
}
