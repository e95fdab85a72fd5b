package store

import (
	"bytes"
	"slices"

	"github.com/dgraph-io/badger/v4"
)

// Name is an entry of a directory as the history knows it.
type Name struct {
	Path    Path
	Dir     bool // something is or was in its subtree
	Deleted bool // neither the entry nor anything in its subtree exists
}

// maxNames limits the keys that Names reads while the user waits for completion at a shell prompt.
const maxNames = 50_000

// Names lists the entries of a directory ("" is the root) that begin with prefix, in byte order. It
// includes deleted entries.
func (s *Store) Names(dir Path, prefix string) (names []Name, err error) {
	base := below(dir)
	at := map[Path]int{}
	err = s.db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{PrefetchValues: true, PrefetchSize: 64, Prefix: keyCurrent(base + Path(prefix))})
		defer it.Close()
		n := 0
		for it.Rewind(); it.Valid() && n < maxNames; it.Next() {
			n++
			first, _, deeper := bytes.Cut(it.Item().Key()[1+len(base):], []byte{'/'})
			var v Version
			if err := it.Item().Value(func(val []byte) (err error) { v, err = decodeCurrent(val); return err }); err != nil {
				return damaged(err)
			}
			name := Name{Path: base + Path(first), Dir: deeper || v.Stat.IsDir(), Deleted: v.Deleted()}
			i, known := at[name.Path]
			if !known {
				at[name.Path] = len(names)
				names = append(names, name)
				continue
			}
			names[i].Dir, names[i].Deleted = true, names[i].Deleted && name.Deleted
		}
		return nil
	})
	slices.SortFunc(names, func(a, b Name) int { return bytes.Compare([]byte(a.Path), []byte(b.Path)) })
	return names, err
}

// DeletedIn calls fn with the last version of each deleted path in a directory's subtree ("" is the
// root), in byte order, until fn returns false.
func (s *Store) DeletedIn(dir Path, fn func(Version) bool) error {
	return s.db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{PrefetchValues: true, PrefetchSize: 64, Prefix: keyCurrent(dir)})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			if !Path(it.Item().Key()[1:]).Inside(dir) {
				continue
			}
			on := true
			err := it.Item().Value(func(val []byte) error {
				if gone, err := currentDeleted(val); !gone || err != nil {
					return err
				}
				v, err := decodeCurrent(val)
				if err == nil {
					on = fn(v)
				}
				return err
			})
			if err != nil || !on {
				return damaged(err)
			}
		}
		return nil
	})
}

// Children calls fn with each direct child of a directory ("" is the root) that the store has ever
// recorded, existing or not, in the order of the keys, until fn returns false.
func (v *View) Children(dir Path, fn func(Path) bool) error {
	prefix := keyCurrent(below(dir))
	it := v.txn.NewIterator(badger.IteratorOptions{Prefix: prefix})
	defer it.Close()
	known := map[Path]bool{} // the keys of a child need not be neighbours: "a.b" sorts between "a" and "a/c"
	for it.Rewind(); it.Valid(); {
		key := it.Item().Key()
		name := key[len(prefix):]
		i := bytes.IndexByte(name, '/')
		child := Path(key[1:])
		if i >= 0 {
			child = Path(key[1 : len(prefix)+i])
		}
		if len(name) > 0 && !known[child] {
			known[child] = true
			if !fn(child) {
				return nil
			}
		}
		if i < 0 {
			it.Next()
		} else {
			it.Seek(append(keyCurrent(child), '/'+1))
		}
	}
	return nil
}
