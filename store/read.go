package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	badger "github.com/dgraph-io/badger/v4"
)

// Version returns the version with this sequence number. ErrNotFound: there is
// none, or it has been dropped.
func (s *Store) Version(seq uint64) (Version, error) {
	var v Version
	err := s.view(func(txn *badger.Txn) (err error) {
		v, err = s.versionIn(txn, seq)
		return err
	})
	return v, err
}

func (s *Store) versionIn(txn *badger.Txn, seq uint64) (v Version, err error) {
	if seq == 0 || seq > s.Seq() {
		return v, fmt.Errorf("version %d: %w", seq, ErrNotFound)
	}
	item, err := txn.Get(keyVersion(seq))
	if errors.Is(err, badger.ErrKeyNotFound) {
		return v, fmt.Errorf("version %d: %w", seq, ErrNotFound)
	}
	if err != nil {
		return v, damaged(err)
	}
	err = item.Value(func(val []byte) (err error) { v, err = decodeVersion(keyVersion(seq), val); return })
	return v, damaged(err)
}

// Since returns up to limit versions after seq, oldest first.
func (s *Store) Since(seq uint64, limit int) ([]Version, error) {
	var out []Version
	err := s.scan(seq+1, false, func(v Version) bool {
		out = append(out, v)
		return len(out) < limit
	}, nil)
	return out, err
}

// scan passes versions from seq on, in either direction, until fn says false.
// skip, if not nil, is asked about whole time blocks.
func (s *Store) scan(from uint64, down bool, fn func(Version) bool, skip func(times) bool) error {
	newest := s.Seq()
	if down {
		from = min(from, newest)
	}
	return s.view(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{
			PrefetchValues: true, PrefetchSize: 64, Reverse: down, Prefix: []byte{kVersion}})
		defer it.Close()
		asked := ^uint64(0)
		for it.Seek(keyVersion(from)); it.Valid(); {
			key := it.Item().Key()
			seq := binary.BigEndian.Uint64(key[1:])
			if seq > newest {
				return nil
			}
			if blk := seq / timeBlock; skip != nil && blk != asked {
				asked = blk
				if t, ok := timesIn(txn, seq); ok && skip(t) {
					if down && blk == 0 {
						return nil
					}
					next := (blk + 1) * timeBlock
					if down {
						next = blk*timeBlock - 1
					}
					it.Seek(keyVersion(next))
					continue
				}
			}
			var v Version
			err := it.Item().Value(func(val []byte) (err error) { v, err = decodeVersion(key, val); return })
			if err != nil {
				return damaged(err)
			}
			if !fn(v) {
				return nil
			}
			it.Next()
		}
		return nil
	})
}

func timesIn(txn *badger.Txn, seq uint64) (t times, ok bool) {
	item, err := txn.Get(keyTimes(seq))
	if err != nil {
		return t, false
	}
	item.Value(func(v []byte) error { t, ok = parseTimes(v); return nil })
	return t, ok
}

// Current returns the newest version of a path; false when none is known. It
// may be a deletion.
func (s *Store) Current(p Path) (Version, bool, error) {
	if v, ok := s.current.get(p); ok && v.Seq != 0 {
		return v, true, nil
	}
	var v Version
	found := false
	err := s.view(func(txn *badger.Txn) error {
		item, err := txn.Get(keyCurrent(p))
		if errors.Is(err, badger.ErrKeyNotFound) {
			return nil
		}
		if err != nil {
			return damaged(err)
		}
		if err := item.Value(func(val []byte) (err error) { v, err = decodeCurrent(val); return }); err != nil {
			return damaged(err)
		}
		found = true
		if newest := s.Seq(); v.Seq > newest { // of a batch in progress
			v, found, err = newestOf(txn, p, newest)
			return err
		}
		return nil
	})
	return v, found, err
}

// own returns all versions of a path itself, oldest first, up to seq most.
func (s *Store) own(txn *badger.Txn, p Path, most uint64) ([]Version, error) {
	var seqs []uint64
	it := txn.NewIterator(badger.IteratorOptions{Prefix: keyPathPrefix(p)})
	for it.Rewind(); it.Valid(); it.Next() {
		if _, seq, ok := parsePathKey(it.Item().Key()); ok && seq <= most {
			seqs = append(seqs, seq)
		}
	}
	it.Close()
	out := make([]Version, 0, len(seqs))
	for _, seq := range seqs {
		v, err := s.versionIn(txn, seq)
		if errors.Is(err, ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// History returns the versions of a path, oldest first. With follow it is the
// history of the file that is (or was last) there: where it came from another
// name, that name's versions come first. A file that was replaced by a rename
// (an atomic save) stays the same file.
func (s *Store) History(p Path, follow bool) ([]Version, error) {
	var out []Version
	err := s.view(func(txn *badger.Txn) error {
		most := s.Seq()
		for hops := 0; ; hops++ {
			vs, err := s.own(txn, p, most)
			if err != nil {
				return err
			}
			cut := -1
			if follow && hops < 1000 {
				if cut, err = s.arrival(txn, vs); err != nil {
					return err
				}
			}
			if cut < 0 {
				out = append(vs, out...)
				return nil
			}
			out = append(slices.Clone(vs[cut:]), out...)
			p, most = vs[cut].From, vs[cut].Prev
		}
	})
	return out, err
}

// arrival is the index of the last version by which another file came to a
// path where none was, -1 if the history begins here.
func (s *Store) arrival(txn *badger.Txn, vs []Version) (int, error) {
	for i := len(vs) - 1; i >= 0; i-- {
		v := vs[i]
		moved := v.Op == OpRename || v.Op == OpLink || v.Op == OpExchange
		if !moved || v.From == "" || v.Op != OpExchange && i > 0 && !vs[i-1].Deleted() {
			continue
		}
		if temp, err := s.fromPlan(txn, v); err != nil || !temp {
			return i, err
		}
	}
	return -1, nil
}

// fromPlan: what was renamed was made by the same plan, which writes a file
// beside its place first. What it brought back is the file that was here before.
func (s *Store) fromPlan(txn *badger.Txn, v Version) (bool, error) {
	if v.Plan == "" || v.Op != OpRename {
		return false, nil
	}
	from, err := s.own(txn, v.From, v.Prev)
	if err != nil || len(from) == 0 {
		return false, err
	}
	return !slices.ContainsFunc(from, func(o Version) bool { return o.Plan != v.Plan }), nil
}

// At returns what a path was at a moment: the newest version not younger than
// t. False: nothing is known of it then.
func (s *Store) At(p Path, t time.Time) (Version, bool, error) {
	return s.before(p, func(v Version) bool { return v.Time <= t.UnixNano() })
}

// AtSeq returns the newest version of a path up to seq.
func (s *Store) AtSeq(p Path, seq uint64) (v Version, found bool, err error) {
	err = s.view(func(txn *badger.Txn) (err error) {
		v, found, err = newestOf(txn, p, min(seq, s.Seq()))
		return err
	})
	return v, found, err
}

func (s *Store) before(p Path, ok func(Version) bool) (Version, bool, error) {
	vs, err := s.History(p, false)
	for i := len(vs) - 1; i >= 0; i-- {
		if ok(vs[i]) {
			return vs[i], true, err
		}
	}
	return Version{}, false, err
}

// SeqAt is the newest version that is not younger than t, 0 if all are.
func (s *Store) SeqAt(t time.Time) (uint64, error) {
	at, n := uint64(0), t.UnixNano()
	err := s.scan(^uint64(0), true, func(v Version) bool {
		if v.Time <= n {
			at = v.Seq
		}
		return at == 0
	}, func(b times) bool { return b.Min > n })
	return at, err
}

// Live passes the newest versions of all paths that exist at or below prefix,
// parents first, until fn answers an error, which Live returns.
func (s *Store) Live(prefix Path, fn func(Version) error) error {
	newest := s.Seq()
	return s.view(func(txn *badger.Txn) error {
		emit := func(item *badger.Item) error {
			var v Version
			gone := false
			err := item.Value(func(val []byte) (err error) {
				if len(val) > 8 && binary.BigEndian.Uint64(val) <= newest {
					if gone, err = currentDeleted(val); gone || err != nil {
						return err
					}
				}
				v, err = decodeCurrent(val)
				return err
			})
			if err != nil || gone {
				return damaged(err)
			}
			if v.Seq > newest {
				var found bool
				if v, found, err = newestOf(txn, v.Path, newest); err != nil || !found {
					return err
				}
			}
			if v.Deleted() {
				return nil
			}
			return fn(v)
		}
		if prefix != "" {
			item, err := txn.Get(keyCurrent(prefix))
			if err == nil {
				err = emit(item)
			}
			if err != nil && !errors.Is(err, badger.ErrKeyNotFound) {
				return err
			}
		}
		it := txn.NewIterator(badger.IteratorOptions{
			PrefetchValues: true, PrefetchSize: 64, Prefix: keyCurrent(below(prefix))})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			if err := emit(it.Item()); err != nil {
				return err
			}
		}
		return nil
	})
}
