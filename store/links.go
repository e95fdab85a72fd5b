package store

import (
	"slices"

	"cachebro/store/content"

	badger "github.com/dgraph-io/badger/v4"
)

// This file maintains the names of files with several names (hard links), and their link counts. A
// version holds the link count at its time. Rewriting the newest version of every name for each new
// name would cost too much for a file with 5,000 names. Instead, one record per file holds the
// present count, and readers of a newest version take the count from it (see counted). When a name
// gets a newer version, the count of that moment is written into the older one.

// linkCount is the present link count of a file, the value of an L key. It applies to the newest
// versions of the file's names up to number Seq.
type linkCount struct {
	Seq     uint64 `cbor:"1,keyasint"` // newest version when the count was noted
	Nlink   uint32 `cbor:"2,keyasint"`
	Ctime   int64  `cbor:"3,keyasint,omitempty"` // when the file last got a name
	Linked  int64  `cbor:"4,keyasint,omitempty"` // see Version.Linked
	changed bool   // by the batch
}

// severalNames reports whether v describes a file that had several names.
func severalNames(v Version) bool {
	return v.Stat.Nlink > 1 && v.Stat.Ino != 0 && !v.Stat.IsDir() && !v.Deleted()
}

// counted returns v, the newest version of a path, with the present link count of its file.
func (l *linkCount) counted(v Version) Version {
	if l.Seq < v.Seq {
		return v
	}
	v.Stat.Nlink, v.Stat.Ctime = l.Nlink, max(v.Stat.Ctime, l.Ctime)
	if l.Linked > v.Time {
		v.Linked = max(v.Linked, l.Linked)
	}
	return v
}

// linkCountIn reads the link count of a file. It is zero if the file has no record.
func linkCountIn(txn *badger.Txn, in Inode) (*linkCount, error) {
	l := &linkCount{}
	_, err := txnGet(txn, keyLinkCount(in), l)
	return l, err
}

// linkCount returns the link count of a file, including the changes of this batch.
func (b *batch) linkCount(in Inode) (*linkCount, error) {
	if l := b.counts[in]; l != nil {
		return l, nil
	}
	l, err := linkCountIn(b.w.Txn, in)
	if err == nil {
		b.counts[in] = l
	}
	return l, err
}

// countNames notes that a file now has st.Nlink + more names. linked is the value for
// Version.Linked. A change that removes or replaces a name calls countNames after it has added its
// version, so that the last version of that name keeps the earlier count.
func (b *batch) countNames(st Stat, more int, linked int64) error {
	n := int(st.Nlink) + more
	if st.Ino == 0 || st.IsDir() || st.Nlink == 0 || n < 1 {
		return nil
	}
	l, err := b.linkCount(InodeOf(st))
	if err != nil {
		return err
	}
	l.changed = true
	l.Seq, l.Nlink = b.next.Seq, uint32(n)
	l.Linked = max(l.Linked, linked)
	if more > 0 {
		l.Ctime = st.Ctime
	}
	return nil
}

// recounted is like counted, and makes the batch write the version again if its count has changed.
func (b *batch) recounted(v Version) (Version, error) {
	l, err := b.linkCount(InodeOf(v.Stat))
	if err != nil {
		return v, err
	}
	now := l.counted(v)
	if now.Stat != v.Stat || now.Linked != v.Linked {
		b.changed(now, nil)
	}
	return now, nil
}

// flushCounts writes the link counts that the batch changed.
func (b *batch) flushCounts() error {
	for in, l := range b.counts {
		if !l.changed {
			continue
		}
		if err := b.w.Set(keyLinkCount(in), encode(l)); err != nil {
			return err
		}
	}
	return nil
}

// name records a path as one of several names of an inode.
func (b *batch) name(st Stat, p Path) error {
	in := InodeOf(st)
	b.links[in] = append(b.links[in], p)
	return b.w.Set(append(keyLinkPrefix(InodeOf(st)), p...), nil)
}

// names lists all recorded names of an inode except the given one.
func (b *batch) names(st Stat, except Path) []Path {
	prefix := keyLinkPrefix(InodeOf(st))
	it := b.w.Snapshot().NewIterator(badger.IteratorOptions{Prefix: prefix})
	defer it.Close()
	out := slices.Clone(b.links[InodeOf(st)])
	for it.Rewind(); it.Valid(); it.Next() {
		out = append(out, Path(it.Item().KeyCopy(nil)[len(prefix):]))
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return slices.DeleteFunc(out, func(p Path) bool { return p == except })
}

// nodeMemory bounds the memory of Store.nodes. An entry without buffered bytes costs about 2 KiB.
// Other nodes are found through the newest version of their path (see batch.node).
const nodeMemory = 16 << 20

// node is the content of an inode of the current mount at its last close. With it, the cost of an
// append depends on the appended bytes and not on the size of the file.
type node struct {
	inode Inode
	tail  *content.Tail
}

func (n *node) cost() int { return 2<<10 + n.tail.Buffered() }
