package store

import (
	"errors"

	badger "github.com/dgraph-io/badger/v4"
)

// saveTime bounds how long a process may take for an atomic save, in ns.
const saveTime = int64(60e9)

// MadeFor tells an atomic save from a rename: when the process that renamed a
// file had made it itself a moment before, as sed -i and editors do, it is the
// number of the version that it began with. 0: it was renamed for its own sake.
func (s *Store) MadeFor(v Version) (uint64, error) {
	if v.Op != OpRename || v.Plan != "" || v.Actor.PID == 0 || !isRegular(v.Stat) {
		return 0, nil
	}
	first, made := uint64(0), false
	before := func(o Version) bool {
		if o.Op == OpMoved && o.Seq+1 == v.Seq {
			return true
		}
		if o.Deleted() || o.Actor.PID != v.Actor.PID || o.Actor.Start != v.Actor.Start || v.Time-o.Time > saveTime {
			return false
		}
		// A chmod through the descriptor is told of before the file is.
		first, made = o.Seq, made || o.Op == OpCreate
		return true
	}
	if err := s.View(func(w *View) error { return w.backwards(v.From, v.Seq, before) }); err != nil {
		return 0, err
	}
	if !made {
		return 0, nil
	}
	return first, nil
}

// backwards passes the versions of a path from seq down, until fn says false. It
// reads no more than it passes: a name that every save of a file goes through
// has thousands of versions, and the log asks about each of them.
func (v *View) backwards(p Path, seq uint64, fn func(Version) bool) error {
	it := v.txn.NewIterator(badger.IteratorOptions{Reverse: true, Prefix: keyPathPrefix(p)})
	defer it.Close()
	for it.Seek(keyPath(p, min(seq, v.seq))); it.Valid(); it.Next() {
		_, at, ok := parsePathKey(it.Item().Key())
		if !ok {
			continue
		}
		o, err := v.Version(at)
		if errors.Is(err, ErrNotFound) {
			continue
		}
		if err != nil || !fn(o) {
			return err
		}
	}
	return nil
}
