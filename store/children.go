package store

import (
	"bytes"

	"github.com/dgraph-io/badger/v4"
)

// Children calls fn with each direct child of a directory ("" is the root) that the store has ever
// recorded, existing or not. It sorts the children by bytes and stops when fn returns false.
func (v *View) Children(dir Path, fn func(Path) bool) error {
	prefix := keyCurrent(below(dir))
	it := v.txn.NewIterator(badger.IteratorOptions{Prefix: prefix})
	defer it.Close()
	known := map[Path]bool{} // several keys may contain the same child: "a", "a.b", "a/c"
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
