package store

import (
	"errors"
	"slices"

	"cachebro/store/content"

	badger "github.com/dgraph-io/badger/v4"
)

// This file maintains the names of files with several names (hard links), and their link counts.
// The newest version of each name holds the count, so one new name of a file with 5,000 names
// changes 5,000 versions. A batch therefore only notes new counts and updates each name once, at
// its end. Updating each name at once would rewrite 12 million versions for 5,000 new links.

// linkNote is the new link count of a file.
type linkNote struct {
	position int // position among all notes of the batch
	except   Path
	nlink    uint32
	ctime    int64 // 0: unchanged
	linked   int64
}

// linkCounts holds the notes of a batch.
type linkCounts struct {
	notes map[Inode][]linkNote
	stats map[Inode]Stat // any stat of each file, for the keys of its names
	n     int
	known map[Path]int // number of notes when the path's newest version was last brought up to date
}

// markCurrent records that the newest version of a path has all counts noted so far.
func (l *linkCounts) markCurrent(p Path) {
	if l.n > 0 {
		l.known[p] = l.n
	}
}

// countNames notes that an inode now has st.Nlink + more names. The newest versions of its names,
// apart from except, are updated later. linked is the value for Version.Linked.
func (b *batch) countNames(st Stat, except Path, more int, linked int64) error {
	n := int(st.Nlink) + more
	if n < 1 || st.Ino == 0 || isDir(st) || n == 1 && more > 0 {
		return nil
	}
	l := &b.linkage
	if l.n == 0 {
		l.notes, l.stats, l.known = map[Inode][]linkNote{}, map[Inode]Stat{}, map[Path]int{}
	}
	l.n++
	note := linkNote{position: l.n, except: except, nlink: uint32(n), linked: linked}
	if more > 0 {
		note.ctime = st.Ctime
	}
	in := InodeOf(st)
	l.notes[in], l.stats[in] = append(l.notes[in], note), st
	return nil
}

// recounted applies the noted counts that v, the newest version of an existing path, does not have
// yet. It returns the result, and whether v changed.
func (b *batch) recounted(v Version) (Version, bool, error) {
	l := &b.linkage
	notes := l.notes[InodeOf(v.Stat)]
	known := l.known[v.Path]
	if len(notes) == 0 || notes[len(notes)-1].position <= known {
		return v, true, nil
	}
	_, err := b.w.Txn.Get(keyLink(v.Stat, v.Path))
	l.known[v.Path] = l.n
	if errors.Is(err, badger.ErrKeyNotFound) { // the file never had a second name under this path
		return v, true, nil
	}
	if err != nil {
		return v, true, damaged(err)
	}
	was := v
	for _, n := range notes {
		if n.position <= known || n.except == v.Path || v.Stat.Nlink == n.nlink && n.linked == 0 {
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

// countLinks brings the link counts in the newest versions up to date.
func (b *batch) countLinks() error {
	for _, st := range b.linkage.stats {
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

// name records a path as one of several names of an inode.
func (b *batch) name(st Stat, p Path) error {
	in := InodeOf(st)
	b.links[in] = append(b.links[in], p)
	return b.w.Set(keyLink(st, p), nil)
}

// names lists all recorded names of an inode, apart from except.
func (b *batch) names(st Stat, except Path) ([]Path, error) {
	prefix := keyLinkPrefix(st)
	it := b.w.Snapshot().NewIterator(badger.IteratorOptions{Prefix: prefix})
	defer it.Close()
	out := slices.Clone(b.links[InodeOf(st)])
	for it.Rewind(); it.Valid(); it.Next() {
		out = append(out, Path(it.Item().KeyCopy(nil)[len(prefix):]))
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return slices.DeleteFunc(out, func(p Path) bool { return p == except }), nil
}

const (
	// maxNodes bounds the table. Other nodes are found through the newest version of their path
	// (see batch.node).
	maxNodes = 4096
	// tailBuffers bounds the bytes that all nodes together buffer.
	tailBuffers = 8 << 20
)

// nodeTable maps each inode of the current mount to its content at the last close. With it, the
// cost of an append depends on the appended bytes and not on the size of the file.
type nodeTable struct {
	young, old map[uint64]*node // two generations, as in cache.Cache
	buffered   int              // upper bound of the bytes in tails
}

type node struct {
	inode Inode
	tail  *content.Tail
}

func newNodeTable() nodeTable {
	return nodeTable{young: map[uint64]*node{}, old: map[uint64]*node{}}
}

func (t *nodeTable) get(id uint64) *node {
	if id == 0 {
		return nil
	}
	if n := t.young[id]; n != nil {
		return n
	}
	n := t.old[id]
	if n != nil {
		t.put(id, n)
	}
	return n
}

func (t *nodeTable) put(id uint64, n *node) {
	if id == 0 {
		return
	}
	t.young[id] = n
	t.buffered += n.tail.Buffered() / 8 // the buffer doubles when it grows
	if len(t.young) > maxNodes/2 {
		t.old, t.young = t.young, map[uint64]*node{}
	}
	if t.buffered > tailBuffers {
		for _, gen := range [...]map[uint64]*node{t.young, t.old} {
			for id, n := range gen {
				gen[id] = &node{n.inode, n.tail.Short()}
			}
		}
		t.buffered = 0
	}
}

func (t *nodeTable) clear() { *t = newNodeTable() }
