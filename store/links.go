package store

import (
	"errors"
	"slices"

	badger "github.com/dgraph-io/badger/v4"
)

// Names of a file that has several, and how many it has. Each name's newest version
// tells the number, so a new name of a file with 5,000 changes 5,000 versions. A batch
// only notes that, and looks at each name once at its end: that made of 5,000 links, one
// after the other, 12 million rewritten versions.

// linkNote says of a file that it has so many names now.
type linkNote struct {
	at     int // of all notes of the batch
	but    Path
	nlink  uint32
	ctime  int64 // 0: as it was
	linked int64
}

// linkCounts are the notes of a batch.
type linkCounts struct {
	notes map[Inode][]linkNote
	of    map[Inode]Stat // what keys its names
	n     int
	known map[Path]int // how many notes there were when the path's newest version was made or counted last
}

// seen: the newest version of a path knows of all notes so far.
func (l *linkCounts) seen(p Path) {
	if l.n > 0 {
		l.known[p] = l.n
	}
}

// countNames notes in the newest versions of an inode's other names that it has so
// many names more than st says; linked: see Version.Linked.
func (b *batch) countNames(st Stat, but Path, more int, linked int64) error {
	n := int(st.Nlink) + more
	if n < 1 || st.Ino == 0 || isDir(st) || n == 1 && more > 0 {
		return nil
	}
	l := &b.linkage
	if l.n == 0 {
		l.notes, l.of, l.known = map[Inode][]linkNote{}, map[Inode]Stat{}, map[Path]int{}
	}
	l.n++
	note := linkNote{at: l.n, but: but, nlink: uint32(n), linked: linked}
	if more > 0 {
		note.ctime = st.Ctime
	}
	in := InodeOf(st)
	l.notes[in], l.of[in] = append(l.notes[in], note), st
	return nil
}

// recounted is the newest version of a path, which exists, after the notes that it does
// not know of yet.
func (b *batch) recounted(v Version) (Version, bool, error) {
	l := &b.linkage
	notes := l.notes[InodeOf(v.Stat)]
	known := l.known[v.Path]
	if len(notes) == 0 || notes[len(notes)-1].at <= known {
		return v, true, nil
	}
	_, err := b.w.Txn.Get(keyLink(v.Stat, v.Path))
	l.known[v.Path] = l.n
	if errors.Is(err, badger.ErrKeyNotFound) { // its names are not known to be several
		return v, true, nil
	}
	if err != nil {
		return v, true, damaged(err)
	}
	was := v
	for _, n := range notes {
		if n.at <= known || n.but == v.Path || v.Stat.Nlink == n.nlink && n.linked == 0 {
			continue
		}
		v.Stat.Nlink = n.nlink
		if n.ctime != 0 {
			v.Stat.Ctime = n.ctime
		}
		v.Linked = max(v.Linked, n.linked)
	}
	if v.Stat != was.Stat || v.Linked != was.Linked {
		b.changed(v, nil)
	}
	return v, true, nil
}

// countLinks counts all names of the files with notes.
func (b *batch) countLinks() error {
	for _, st := range b.linkage.of {
		names, err := b.names(st, "")
		if err != nil {
			return err
		}
		for _, p := range names {
			if _, _, err := b.live(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// name notes one of several names of an inode.
func (b *batch) name(st Stat, p Path) error {
	in := InodeOf(st)
	b.links[in] = append(b.links[in], p)
	return b.w.Set(keyLink(st, p), nil)
}

// names lists the other names that an inode is known to have had.
func (b *batch) names(st Stat, but Path) ([]Path, error) {
	prefix := keyLinkPrefix(st)
	it := b.w.Snapshot().NewIterator(badger.IteratorOptions{Prefix: prefix})
	defer it.Close()
	out := slices.Clone(b.links[InodeOf(st)])
	for it.Rewind(); it.Valid(); it.Next() {
		out = append(out, Path(it.Item().KeyCopy(nil)[len(prefix):]))
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return slices.DeleteFunc(out, func(p Path) bool { return p == but }), nil
}
