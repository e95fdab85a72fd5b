package store

import (
	"math"
	"slices"

	"cachebro/store/leaf/event"
)

// This file handles the changes that make more than one version: removal, rename, exchange
// and link.

// preimage stores the content that a change is about to destroy, if the change carries it, as a
// baseline. It returns the path's newest version and whether the path exists.
func (b *batch) preimage(c *Change, cur Version, live bool) (Version, bool, error) {
	if !c.HasContent || c.TailFrom > 0 {
		return cur, live, nil
	}
	h, err := b.put(c.Content, cur)
	if err != nil {
		return cur, live, err
	}
	v := c.version(c.Path, OpBaseline)
	v.Actor, v.Plan = Actor{}, ""
	v.Blob = h
	if live && cur.Blob == h {
		if c.Stat.Ino == 0 || !same(cur, v) {
			return cur, live, nil
		}
		// The file may have been written again with the same content. Keep its newest times, which
		// an undo restores.
		if err := b.refresh(cur, v); err != nil {
			return cur, live, err
		}
		return b.live(c.Path)
	}
	v, err = b.add(v)
	return v, true, err
}

// remove records an unlink or rmdir.
func (b *batch) remove(c *Change) error {
	cur, live, err := b.live(c.Path)
	if err != nil {
		return err
	}
	cur, live, err = b.preimage(c, cur, live)
	if err != nil {
		return err
	}
	if live && c.Stat == (Stat{}) { // nobody observed the removal
		c.Stat, c.LastName = cur.Stat, cur.Stat.Nlink <= 1
	}
	if c.LastName {
		b.forget(c.Node)
	}
	switch {
	case live:
	case c.Class != event.Excluded && removesReported(c):
		// Anything but a regular file is reported as soon as it is created through the mount. This
		// one was never reported, so it existed before the mount.
		cur, err = b.wasThere(c, "")
		if err != nil {
			return err
		}
		live = true
	case !c.LastName && c.Class == event.Ignored && isRegular(c.Stat) && c.Stat.Nlink > 1:
		// An ignored file has no record until it is changed. Its removal proves that it existed. If
		// another name of the file is known, the baseline gets the content from there.
		cur, err = b.wasThere(c, "not captured: the file had another name")
		if err != nil {
			return err
		}
		live = true
	}
	if c.Op == OpRmdir || live && cur.Stat.IsDir() {
		// The kernel removes only empty directories. So if the store still lists paths in this one,
		// their removal was not observed.
		if err := b.removeBelow(c, c.Path, math.MaxInt64); err != nil {
			return err
		}
	}
	v := c.version(c.Path, c.Op)
	v.NoContent = c.NoContent
	if live {
		v.Class = cur.Class
		if v.Stat == (Stat{}) {
			v.Stat = cur.Stat
		}
	}
	if _, err := b.add(v); err != nil {
		return err
	}
	gone := -1
	if c.LastName && c.Stat.Nlink > 1 { // the file still has a name, which the history excludes
		gone = 0
	}
	return b.countNames(c.Stat, gone, 0)
}

// removesReported reports whether c removes a directory or a special file.
func removesReported(c *Change) bool {
	if c.Op == OpRmdir {
		return c.Stat.IsDir()
	}
	return c.Op == OpUnlink && !c.Stat.IsDir() && !isRegular(c.Stat)
}

// removeBelow records the removal of everything in a directory's subtree that was recorded before a
// time, in ns since the epoch. c supplies the author and the time.
func (b *batch) removeBelow(c *Change, dir Path, before int64) error {
	kids, err := b.below(dir)
	if err != nil {
		return err
	}
	for _, kid := range slices.Backward(kids) {
		was, live, err := b.live(kid)
		if err != nil {
			return err
		}
		if !live || was.Time >= before {
			continue
		}
		v := c.version(kid, OpUnlink)
		v.Stat, v.Class = was.Stat, was.Class
		if was.Stat.IsDir() {
			v.Op = OpRmdir
		}
		if _, err := b.add(v); err != nil {
			return err
		}
	}
	return nil
}

// replacedUnseen records removals that were not observed, if a change shows that one directory has
// replaced another. If the store knows another directory at the change's path, everything recorded
// below the path before the new directory was made must be gone. If a rename replaces a directory,
// everything below the replaced one must be gone. Only histories without scans need this (see
// Options.Unscanned).
func (b *batch) replacedUnseen(c *Change) error {
	if !b.s.opt.Unscanned || !c.Stat.IsDir() {
		return nil
	}
	unseen := *c
	unseen.Actor, unseen.Plan = Actor{Comm: "outside"}, ""
	unseen.NoContent = ""
	at, live, err := b.live(c.Path)
	if err != nil {
		return err
	}
	isKnown := InodeOf(at.Stat) == InodeOf(c.Stat) || at.Stat.Ino == 0 || c.Stat.Birth == 0
	if live && at.Stat.IsDir() && !isKnown {
		if err := b.removeBelow(&unseen, c.Path, c.Stat.Birth); err != nil {
			return err
		}
	}
	if c.Op != OpRename || c.Path2.Inside(c.Path) {
		return nil
	}
	over, live, err := b.live(c.Path2)
	if err != nil || !live || !over.Stat.IsDir() || InodeOf(over.Stat) == InodeOf(c.Stat) {
		return err
	}
	return b.removeBelow(&unseen, c.Path2, math.MaxInt64)
}

// removedUnseen records a removal that was not observed, if something new was made at a path at which
// the store knows something else: the name must have been free. That happens when a file was removed
// while nothing was mounted, and a scan has not noticed it yet.
func (b *batch) removedUnseen(c *Change) error {
	switch c.Op {
	case OpCreate, OpMkdir, OpSymlink, OpMknod:
	default:
		return nil
	}
	was, live, err := b.live(c.Path)
	if err != nil || !live || was.Stat.Ino == 0 {
		return err
	}
	if InodeOf(was.Stat) == InodeOf(c.Stat) || c.Stat.Birth <= was.Time {
		return nil // the known version can be of this very file
	}
	gone := &Change{Op: OpUnlink, Class: was.Class, Path: c.Path, Time: c.Time, Actor: Actor{Comm: "outside"}}
	if was.Stat.IsDir() {
		gone.Op = OpRmdir
	}
	return b.remove(gone)
}

// wasThere adds a baseline that describes a path before its first known change.
func (b *batch) wasThere(c *Change, noContent string) (Version, error) {
	was := c.version(c.Path, OpBaseline)
	was.Actor, was.Plan = Actor{}, ""
	was.Target, was.NoContent = c.Target, noContent
	if isRegular(c.Stat) && c.Stat.Size == 0 && noContent == "" {
		h, err := b.put(nil, Version{})
		if err != nil {
			return was, err
		}
		was.Blob = h
	}
	if noContent != "" {
		other, ok, err := b.byOtherName(c, func(Version) bool { return true })
		if err == nil && !ok {
			other, ok, err = b.byLostName(c)
		}
		if err != nil {
			return was, err
		}
		if ok {
			was.Blob, was.NoContent = other.Blob, ""
		}
	}
	return b.add(was)
}

// rename moves a path and its subtree.
func (b *batch) rename(c *Change) error {
	if c.Path == c.Path2 {
		return nil
	}
	cur, live, err := b.live(c.Path)
	if err != nil {
		return err
	}
	over, replaces, err := b.live(c.Path2)
	if err != nil {
		return err
	}
	if !live {
		cur = Version{Path: c.Path, Class: c.Class, Stat: c.Stat}
		if isRegular(c.Stat) && c.Stat.Size > 0 {
			cur.NoContent = NoContentRenamed
		}
		if c.Stat.IsDir() || c.Stat.IsLink() {
			// A directory or symlink is reported as soon as it is created through the mount. This
			// one was never reported, so it existed before the mount.
			cur, err = b.wasThere(c, "")
			if err != nil {
				return err
			}
		}
	}
	if c.NoContent != "" {
		cur.NoContent, cur.Blob = c.NoContent, Hash{}
	}
	if c.HasContent {
		cur.Blob, err = b.store(c, -1, over)
		if err != nil {
			return err
		}
		cur.NoContent, cur.Foreign = "", false
	}
	var kids []Path
	tip := b.groups.upToDateLists.unchanged[c.Path]
	if tip != nil {
		vacant, err := b.vacant(c.Path2)
		if err != nil {
			return err
		}
		if !vacant {
			tip = nil
		}
	}
	if tip == nil && (cur.Stat.IsDir() || c.Stat.IsDir()) {
		kids, err = b.below(c.Path)
		if err != nil {
			return err
		}
	}
	if err := b.move(c, cur, c.Path, c.Path2); err != nil {
		return err
	}
	if replaces && InodeOf(over.Stat) != InodeOf(c.Stat) {
		if err := b.countNames(over.Stat, -1, 0); err != nil {
			return err
		}
	}
	grouped, err := b.group(c, tip, kids)
	if err != nil || grouped {
		return err
	}
	for _, kid := range kids {
		was, live, err := b.live(kid)
		if err != nil {
			return err
		}
		if !live {
			continue
		}
		k := *c
		k.Stat, k.Class = was.Stat, was.Class
		if err := b.move(&k, was, kid, c.Path2+kid[len(c.Path):]); err != nil {
			return err
		}
	}
	if replaces && over.Blob != (Hash{}) && cur.Blob != (Hash{}) {
		// This is an atomic save. The temporary file's content can now be compressed against the
		// content that it replaces.
		return b.contents.Rebase(cur.Blob, over.Blob)
	}
	return nil
}

// move makes the two versions of one renamed path. was is the version that the path had before the
// rename.
func (b *batch) move(c *Change, was Version, from, to Path) error {
	gone := c.version(from, OpMoved)
	gone.To = to
	gone.Class, gone.Stat = was.Class, was.Stat
	gone, err := b.add(gone)
	if err != nil {
		return err
	}
	v := c.version(to, OpRename)
	v.inheritContent(was)
	v.From, v.Prev = from, gone.Prev
	if v.Stat == (Stat{}) {
		v.Stat = was.Stat
	}
	_, err = b.add(v)
	return err
}

// exchange swaps two paths with their subtrees.
func (b *batch) exchange(c *Change) error {
	if c.Path.Inside(c.Path2) || c.Path2.Inside(c.Path) {
		return nil // the kernel refuses to swap a directory with one inside it
	}
	type side struct {
		from, to Path
		kids     []Version
	}
	sides := [2]side{{from: c.Path, to: c.Path2}, {from: c.Path2, to: c.Path}}
	for i := range sides {
		sd := &sides[i]
		paths, err := b.below(sd.from)
		if err != nil {
			return err
		}
		for _, p := range append([]Path{sd.from}, paths...) {
			v, live, err := b.live(p)
			if err != nil {
				return err
			}
			if !live && p == sd.from {
				v, live = Version{Path: p, Class: c.Class, NoContent: "not captured before it was exchanged"}, true
			}
			if live {
				sd.kids = append(sd.kids, v)
			}
		}
	}
	arrived := map[Path]bool{}
	for _, sd := range sides {
		for _, was := range sd.kids {
			v := c.version(sd.to+was.Path[len(sd.from):], OpExchange)
			if _, live, err := b.live(v.Path); err != nil {
				return err
			} else if !live && v.Path != sd.to {
				v.Op = OpRename // nothing is at the other path, so this is a plain rename
			}
			v.inheritContent(was)
			v.From, v.Prev = was.Path, was.Seq
			v.Class, v.Stat = was.Class, was.Stat
			if _, err := b.add(v); err != nil {
				return err
			}
			arrived[v.Path] = true
		}
	}
	for _, sd := range sides {
		for _, was := range sd.kids {
			if arrived[was.Path] {
				continue
			}
			v := c.version(was.Path, OpMoved)
			v.To = sd.to + was.Path[len(sd.from):]
			v.Class, v.Stat = was.Class, was.Stat
			if _, err := b.add(v); err != nil {
				return err
			}
		}
	}
	return nil
}

// link records an additional name of a file. If the new name is excluded from the history, it only
// updates the link count.
func (b *batch) link(c *Change) error {
	cur, live, err := b.live(c.Path)
	if err != nil {
		return err
	}
	if live && c.Stat.Ino != 0 {
		if err := b.name(c.Stat, c.Path); err != nil {
			return err
		}
		before := c.Stat
		before.Nlink--
		linked := int64(0)
		if c.Class == event.Excluded {
			linked = c.Time
		}
		if err := b.countNames(before, 1, linked); err != nil {
			return err
		}
		if cur.Stat.Nlink < 2 && c.Stat.Nlink > 1 && InodeOf(cur.Stat) == InodeOf(c.Stat) {
			cur.Stat.Nlink = c.Stat.Nlink // a count above 1 makes readers look up the present one (see Current)
			b.changed(b.counts[InodeOf(c.Stat)].counted(cur), nil)
		}
	}
	if c.Class == event.Excluded {
		return nil
	}
	v := c.version(c.Path2, OpLink)
	v.From, v.Prev = c.Path, cur.Seq
	switch {
	case c.HasContent:
		v.Blob, err = b.store(c, -1, cur)
		if err != nil {
			return err
		}
	case live:
		v.inheritContent(cur)
	default:
		v.NoContent = "not captured before it was linked"
	}
	if c.NoContent != "" && v.Blob == (Hash{}) {
		v.NoContent = c.NoContent
	}
	_, err = b.add(v)
	return err
}
