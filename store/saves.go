package store

import (
	"errors"
	"path"
	"slices"
	"strings"

	badger "github.com/dgraph-io/badger/v4"
)

// saveTime bounds the duration of an atomic save, in ns.
const saveTime = int64(60e9)

// MadeFor distinguishes an atomic save from an ordinary rename. In an atomic save, as by sed -i and
// editors, the process that renames the file has just created it. MadeFor then returns the number
// of the file's first version. For an ordinary rename it returns 0.
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
		// A chmod through the descriptor is reported before the creation of the file.
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

// backwards calls fn with the versions of a path from seq down, until fn returns false. It does not
// read further, because the log calls it for each version of a temporary name that every save of a
// file uses, and there may be thousands.
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

// OwnFile reports whether p is a temporary file of cachebro: a file that a plan renames into place,
// or doctor's canary. The last action must never be one of these, or an undo after doctor would do
// nothing.
func OwnFile(p Path) bool {
	base := path.Base(string(p))
	return strings.HasPrefix(base, ".cachebro-") && strings.HasSuffix(base, "~")
}

// WithoutTemporary returns one path's versions, which are in order, without those of files that
// were created to be renamed elsewhere. Plans and atomic saves create such files (see MadeFor).
func WithoutTemporary(vs []Version) []Version {
	if len(vs) > 0 && OwnFile(vs[0].Path) {
		return nil
	}
	var out []Version
	life := 0 // index in out of the present file's first version
	for _, v := range vs {
		out = append(out, v)
		if !v.Deleted() {
			continue
		}
		if v.Op == OpMoved && slices.ContainsFunc(out[life:], func(o Version) bool { return o.Op == OpCreate }) &&
			!slices.ContainsFunc(out[life:], func(o Version) bool {
				return o.Actor.PID != v.Actor.PID || o.Actor.Start != v.Actor.Start || v.Time-o.Time > saveTime
			}) {
			out = out[:life]
		}
		life = len(out)
	}
	return out
}
