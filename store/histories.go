package store

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"

	"cachebro/store/db"
)

// A plan needs the histories of thousands of paths. Looking up each version would take longer than
// the rest of the plan. Two walks, one through the path keys and one through the log, take a
// quarter of that time.

// atOnce is how many histories are held in memory at the same time.
const atOnce = 2000

// Histories calls fn with each path and the versions that History(p, false) returns for it, which
// may be none. The newest version of a path has the present link count, as from Current. paths must
// be sorted. Versions in known, keyed by number, are not read again.
func (v *View) Histories(paths []Path, known map[uint64]*Version, fn func(p Path, own []*Version) error) error {
	for part := range slices.Chunk(paths, atOnce) {
		owns, err := v.histories(part, known)
		if err != nil {
			return err
		}
		for i, p := range part {
			if err := fn(p, owns[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// histories returns the histories of some paths.
func (v *View) histories(paths []Path, known map[uint64]*Version) ([][]*Version, error) {
	var all []place
	keys := db.NewWalk(v.txn, []byte{kPath})
	defer keys.It.Close()
	for i, p := range paths {
		prefix := keyPathPrefix(p)
		for keys.To(prefix); keys.It.ValidForPrefix(prefix); keys.It.Next() {
			k := keys.It.Item().Key()
			if seq := binary.BigEndian.Uint64(k[len(k)-8:]); len(k) == len(prefix)+8 && seq <= v.seq {
				all = append(all, place{seq, i})
			}
		}
	}
	owns := make([][]*Version, len(paths))
	counts := make([]int, len(paths))
	for _, at := range all {
		counts[at.path]++
	}
	for i, n := range counts {
		owns[i] = make([]*Version, 0, n)
	}
	err := v.read(all, known, func(path int, o *Version) { owns[path] = append(owns[path], o) })
	if err != nil {
		return nil, err
	}
	for i, p := range paths {
		of := v.s.groups.containing(p)
		for _, g := range of {
			o, found, err := v.inGroup(g, p, v.seq)
			if err != nil {
				return nil, err
			}
			if found {
				owns[i] = append(owns[i], &o)
			}
		}
		if len(of) > 0 {
			slices.SortFunc(owns[i], func(a, b *Version) int { return cmp.Compare(a.Seq, b.Seq) })
		}
		last := len(owns[i]) - 1
		if last < 0 || !severalNames(*owns[i][last]) {
			continue
		}
		now, found, err := v.Current(p)
		if err != nil {
			return nil, err
		}
		if found && now.Seq == owns[i][last].Seq {
			owns[i][last] = &now
		}
	}
	return owns, nil
}

// place is the number of a version, and the index of its path.
type place struct {
	seq  uint64
	path int
}

// read calls fn with the versions at some places, in the order of their numbers. It leaves out
// those that were dropped from the log.
func (v *View) read(all []place, known map[uint64]*Version, fn func(path int, o *Version)) error {
	slices.SortFunc(all, func(a, b place) int { return cmp.Compare(a.seq, b.seq) })
	log := db.NewWalk(v.txn, []byte{kVersion})
	defer log.It.Close()
	for _, at := range all {
		o := known[at.seq]
		if o == nil {
			key := keyVersion(at.seq)
			if log.To(key); !log.It.ValidForPrefix(key) {
				continue
			}
			o = new(Version)
			err := log.It.Item().Value(func(val []byte) (err error) { *o, err = decodeVersion(key, val); return })
			if err != nil {
				return damaged(err)
			}
		}
		fn(at.path, o)
	}
	return nil
}

// NewestBelow returns for each path its newest version with a number below the given one.
// Paths without such a version are left out.
func (v *View) NewestBelow(below map[Path]uint64) (map[Path]Version, error) {
	var all []place
	out := make(map[Path]Version, len(below))
	keys := db.NewWalkDown(v.txn, []byte{kPath})
	defer keys.It.Close()
	paths := slices.Sorted(maps.Keys(below)) // sorted, because neighbours share a block
	for i, p := range slices.Backward(paths) {
		if below[p] == 0 {
			continue
		}
		most := min(below[p]-1, v.seq)
		for _, g := range slices.Backward(v.s.groups.containing(p)) {
			o, found, err := v.inGroup(g, p, most)
			if err != nil {
				return nil, err
			}
			if found {
				out[p] = o
				break
			}
		}
		keys.To(keyPath(p, most))
		if !keys.It.ValidForPrefix(keyPathPrefix(p)) {
			continue
		}
		if at, seq, ok := parsePathKey(keys.It.Item().Key()); ok && at == p && seq > out[p].Seq {
			all = append(all, place{seq, i})
		}
	}
	err := v.read(all, nil, func(path int, o *Version) { out[paths[path]] = *o })
	return out, err
}
