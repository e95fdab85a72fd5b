package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"cachebro/store/db"

	badger "github.com/dgraph-io/badger/v4"
)

// View is the history up to one version, read from one snapshot of the database. Only one goroutine
// may use it at a time. It is valid until the function that received it returns.
type View struct {
	s   *Store
	txn *badger.Txn
	seq uint64
}

// View runs fn on the present history. It returns ErrClosed without running fn if the store is
// closed. fn must not write to the store, because Close blocks writers while it waits for views to
// end.
func (s *Store) View(fn func(*View) error) error { return s.ViewUpTo(s.Seq(), fn) }

// ViewUpTo is like View, but the history ends with version seq.
func (s *Store) ViewUpTo(seq uint64, fn func(*View) error) error {
	seq = min(seq, s.Seq())
	return s.db.View(func(txn *badger.Txn) error { return fn(&View{s, txn, seq}) })
}

// Seq returns the number of the newest version of the view.
func (v *View) Seq() uint64 { return v.seq }

// Version returns the version with this sequence number. It returns ErrNotFound if the
// version does not exist or has been dropped.
func (v *View) Version(seq uint64) (Version, error) {
	if seq > v.seq {
		return Version{}, fmt.Errorf("version %d: %w", seq, ErrNotFound)
	}
	return v.s.versionIn(v.txn, seq)
}

// Version is like View.Version, on the present history.
func (s *Store) Version(seq uint64) (out Version, err error) {
	err = s.View(func(v *View) (err error) { out, err = v.Version(seq); return })
	return out, err
}

func (s *Store) versionIn(txn *badger.Txn, seq uint64) (v Version, err error) {
	if seq == 0 || seq > s.Seq() {
		return v, fmt.Errorf("version %d: %w", seq, ErrNotFound)
	}
	g := s.groups.covering(seq)
	if g == nil {
		return versionOf(txn, seq)
	}
	m, err := s.groups.members(txn, g)
	if err != nil {
		return v, err
	}
	v, found := m.get(seq)
	if !found {
		err = fmt.Errorf("version %d: %w", seq, ErrNotFound)
	}
	return v, err
}

// versionOf reads a version that has a record, even if it is not published yet.
func versionOf(txn *badger.Txn, seq uint64) (v Version, err error) {
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
	newest := s.Seq()
	out := make([]Version, 0, min(uint64(limit), newest-min(seq, newest)))
	err := s.scan(seq+1, func(v Version) bool {
		out = append(out, v)
		return len(out) < limit
	}, pass{})
	return out, err
}

// scan calls fn with the versions from a number on, oldest first, until fn returns false.
func (s *Store) scan(from uint64, fn func(Version) bool, over pass) error {
	return s.View(func(v *View) error { return v.scan(from, false, fn, over) })
}

// pass defines what a scan skips.
type pass struct {
	block     func(blk uint64, t times) bool // returns true for time blocks to skip; nil: none
	baselines bool                           // skip baselines
	groups    bool                           // skip the versions of groups
	within    Path                           // skip paths outside this directory; "": skip none
	// The scan visits only numbers above after and below before; 0 means no bound.
	after, before uint64
}

// scan calls fn with the versions in either direction, beginning at a number, until fn returns
// false.
func (v *View) scan(from uint64, down bool, fn func(Version) bool, over pass) error {
	last := min(v.seq, over.before-1) // without a bound, before-1 is the largest number
	if down {
		from = min(from, last)
	}
	c := v.cursor(down, 0)
	defer c.it.Close()
	c.recordsOnly = over.groups
	asked, state := ^uint64(0), v.s.state.Load()
	for c.seek(from); c.valid(); {
		seq := c.seq()
		if seq <= over.after || seq > last {
			return nil
		}
		if run, ok := state.baselineRunAt(seq); ok && over.baselines {
			if down && run.From <= 1 {
				return nil
			}
			if down {
				c.seek(run.From - 1)
			} else {
				c.seek(run.To + 1)
			}
			continue
		}
		if blk := seq / BlockVersions; over.block != nil && blk != asked {
			next := seq
			for asked = blk; ; asked = blk {
				t, ok := timesIn(v.txn, blk*BlockVersions)
				if !ok || !over.block(blk, t) {
					break
				}
				if down && blk == 0 {
					return nil
				}
				next = (blk + 1) * BlockVersions
				if down {
					next = blk*BlockVersions - 1
				}
				blk = next / BlockVersions
			}
			if next != seq {
				c.seek(next)
				continue
			}
		}
		o, passed := c.read(over)
		if c.err == nil && !passed && !fn(o) {
			return nil
		}
		c.next()
	}
	return damaged(c.err)
}

func timesIn(txn *badger.Txn, seq uint64) (t times, ok bool) {
	item, err := txn.Get(keyTimes(seq))
	if err != nil {
		return t, false
	}
	item.Value(func(v []byte) error { t, ok = parseTimes(v); return nil })
	return t, ok
}

// Current returns the newest version of a path, which may be a deletion. It returns false
// if the path is unknown.
func (v *View) Current(p Path) (Version, bool, error) {
	o, found, err := v.asRecorded(p)
	if err != nil || !severalNames(o) {
		return o, found, err
	}
	l, err := linkCountIn(v.txn, InodeOf(o.Stat))
	if err != nil {
		return o, false, err
	}
	return l.counted(o), found, nil
}

// asRecorded is like Current, but the link count of a file with several names may be outdated.
func (v *View) asRecorded(p Path) (Version, bool, error) {
	if o, ok := v.s.current.Get(p); ok && o.Seq != 0 && o.Seq <= v.seq {
		return o, true, nil
	}
	item, err := v.txn.Get(keyCurrent(p))
	if errors.Is(err, badger.ErrKeyNotFound) {
		return Version{}, false, nil
	}
	if err != nil {
		return Version{}, false, damaged(err)
	}
	var o Version
	if err := item.Value(func(val []byte) (err error) { o, err = decodeCurrent(val); return }); err != nil {
		return Version{}, false, damaged(err)
	}
	if o.Seq > v.seq { // a batch in progress wrote this version
		return v.newest(p, v.seq)
	}
	return o, true, nil
}

// Current is like View.Current, on the present history.
func (s *Store) Current(p Path) (out Version, found bool, err error) {
	if v, ok := s.current.Get(p); ok && v.Seq != 0 && !severalNames(v) {
		return v, true, nil
	}
	err = s.View(func(v *View) (err error) { out, found, err = v.Current(p); return })
	return out, found, err
}

// ownVersions returns the versions of the path itself up to number most, oldest first. It does not
// follow renames.
func (v *View) ownVersions(p Path, most uint64) (out []Version, err error) {
	w := v.backwards(p, most)
	defer w.close()
	for {
		o, err := w.next()
		if err != nil {
			return nil, err
		}
		if o.Seq == 0 {
			slices.Reverse(out)
			return out, nil
		}
		out = append(out, o)
	}
}

// History returns the versions of a path, oldest first. With follow it returns the history of the
// file that is or last was at the path. If the file was renamed to this path, the versions under
// its earlier name come first. A path that was replaced by a rename (an atomic save) counts as the
// same file.
func (v *View) History(p Path, follow bool) (out []Version, err error) {
	if !follow {
		return v.ownVersions(p, v.seq)
	}
	err = v.back(p, func(o Version) bool {
		out = append(out, o)
		return true
	})
	slices.Reverse(out)
	return out, err
}

// back calls fn with the versions that History(p, true) returns, newest first, until fn returns
// false. It does not read further, and follows at most 1000 renames.
func (v *View) back(p Path, fn func(Version) bool) error {
	most := v.seq
	for hops := 0; ; hops++ {
		from, on, err := v.backIn(p, most, hops < 1000, fn)
		if err != nil || !on || from.Seq == 0 {
			return err
		}
		p, most = from.From, from.Prev
	}
}

// backIn does the work of back for one name of the file. It returns the version that gave the file
// this name, or zero if there is none. on is false if fn has returned false.
func (v *View) backIn(p Path, most uint64, follow bool, fn func(Version) bool) (from Version, on bool, err error) {
	w := v.backwards(p, most)
	defer w.close()
	o, err := w.next()
	for err == nil && o.Seq != 0 {
		var below Version
		below, err = w.next()
		if err != nil {
			break
		}
		arrived := false
		if follow {
			arrived, err = v.arrives(o, below)
			if err != nil {
				break
			}
		}
		if !fn(o) {
			return from, false, nil
		}
		if arrived {
			return o, true, nil
		}
		o = below
	}
	return from, true, err
}

// History is like View.History, on the present history.
func (s *Store) History(p Path, follow bool) (out []Version, err error) {
	err = s.View(func(v *View) (err error) { out, err = v.History(p, follow); return })
	return out, err
}

// arrives reports whether version o moved a file from another name to a path that had no file.
// below is the path's previous version, or zero.
func (v *View) arrives(o, below Version) (bool, error) {
	moved := o.Op == OpRename || o.Op == OpLink || o.Op == OpExchange
	hadFile := below.Seq != 0 && !below.Deleted()
	if !moved || o.From == "" || hadFile && o.Op != OpExchange {
		return false, nil
	}
	temp, err := v.fromPlan(o)
	return err == nil && !temp, err
}

// fromPlan reports whether one plan both created and renamed (or exchanged) the file of version o.
// A plan writes a file next to its destination and then renames it. The file counts as the one that
// was at the destination before.
func (v *View) fromPlan(o Version) (bool, error) {
	if o.Plan == "" || o.Op != OpRename && o.Op != OpExchange {
		return false, nil
	}
	from, err := v.ownVersions(o.From, o.Prev)
	if err != nil || len(from) == 0 {
		return false, err
	}
	return !slices.ContainsFunc(from, func(f Version) bool { return f.Plan != o.Plan }), nil
}

// AtSeq returns the newest version of a path up to seq.
func (v *View) AtSeq(p Path, seq uint64) (Version, bool, error) {
	return v.newest(p, seq)
}

// AtSeq is like View.AtSeq, on the present history.
func (s *Store) AtSeq(p Path, seq uint64) (out Version, found bool, err error) {
	err = s.View(func(v *View) (err error) { out, found, err = v.AtSeq(p, seq); return })
	return out, found, err
}

// Live calls fn with the newest version of each existing path that is prefix or in its subtree,
// parents first, until fn returns an error, which Live returns. The link count of a file with
// several names may be outdated; Current returns the present one.
func (v *View) Live(prefix Path, fn func(Version) error) error {
	if prefix != "" {
		item, err := v.txn.Get(keyCurrent(prefix))
		if err == nil {
			err = v.live(item, fn)
		}
		if err != nil && !errors.Is(err, badger.ErrKeyNotFound) {
			return err
		}
	}
	return v.liveFrom(keyCurrent(below(prefix)), keyCurrent(below(prefix)), fn)
}

// LiveAfter calls fn with the newest version of each existing path that sorts after a path, in byte
// order, until fn returns an error, which LiveAfter returns.
func (v *View) LiveAfter(after Path, fn func(Version) error) error {
	from := keyCurrent(after)
	if after != "" {
		from = append(from, 0)
	}
	return v.liveFrom([]byte{kCurrent}, from, fn)
}

func (v *View) liveFrom(prefix, from []byte, fn func(Version) error) error {
	it := v.txn.NewIterator(badger.IteratorOptions{Prefix: prefix})
	defer it.Close()
	for it.Seek(from); it.Valid(); it.Next() {
		if err := v.live(it.Item(), fn); err != nil {
			return err
		}
	}
	return nil
}

// live calls fn with the version in the item of a c key, if the path exists.
func (v *View) live(item *badger.Item, fn func(Version) error) error {
	var o Version
	gone := false
	err := item.Value(func(val []byte) (err error) {
		if len(val) > 8 && binary.BigEndian.Uint64(val) <= v.seq {
			gone, err = currentDeleted(val)
			if gone || err != nil {
				return err
			}
		}
		o, err = decodeCurrent(val)
		return err
	})
	if err != nil || gone {
		return damaged(err)
	}
	if o.Seq > v.seq {
		var found bool
		o, found, err = v.newest(o.Path, v.seq)
		if err != nil || !found {
			return err
		}
	}
	if o.Deleted() {
		return nil
	}
	return fn(o)
}

// Live is like View.Live, on the present history.
func (s *Store) Live(prefix Path, fn func(Version) error) error {
	return s.View(func(v *View) error { return v.Live(prefix, fn) })
}

// NamesOf lists the recorded names of the given files. Names are recorded once a file has several.
func (v *View) NamesOf(files []Inode) (all []Path, err error) {
	prefixes := make([][]byte, len(files))
	for i, in := range files {
		prefixes[i] = keyLinkPrefix(in)
	}
	slices.SortFunc(prefixes, bytes.Compare)
	w := db.NewWalk(v.txn, []byte{kLink})
	defer w.It.Close()
	for _, prefix := range prefixes {
		for w.To(prefix); w.It.ValidForPrefix(prefix); w.It.Next() {
			all = append(all, Path(w.It.Item().KeyCopy(nil)[len(prefix):]))
		}
	}
	return all, nil
}
