package portable

import (
	"slices"

	"cachebro/store"
)

// Append adds a part to the history in a store. The store is a copy of another machine's history,
// filled only by parts, in order. contents may be nil. Versions that the store has are skipped, so
// a part may be added again. short means that contents may be missing because they were dropped,
// here or in an earlier part. The versions are then stored without these contents. Append returns
// ErrNewer, ErrNoSpace, or an error that describes the fault of a stream. Some of the part may then
// be stored.
func Append(s *store.Store, contents, log []byte, short bool, o Options) error {
	return s.FillNew(func(f *store.Filler) error {
		m := &importer{f: f, o: o, ended: map[string]bool{}, after: s.Seq(), short: short}
		limit := max(s.Options().MaxBlob, 1<<20)
		if contents != nil {
			_, err := readPart(contents, contentsMagic, limit, func(_ byte, key, val []byte) error {
				return f.Content(store.Hash(key), val)
			})
			if err != nil {
				return err
			}
		}
		last := uint64(0)
		_, err := readPart(log, logMagic, limit, func(kind byte, key, val []byte) error {
			switch {
			case kind == streamHeadKind:
				var h streamHead
				if decode(val, &h) != nil {
					return badStream("a head cannot be read")
				}
				return f.Begin(h.Gaps, h.Oldest)
			case kind == store.RecordVersion:
				v, err := readVersion(key, val, last)
				if err != nil {
					return err
				}
				last = v.Seq
				return m.version(v)
			case slices.Contains(store.Independent, kind) && len(key) > 0:
				return m.record(kind, key, val)
			}
			return badStream("a record of kind %q is in a log", kind)
		})
		return err
	})
}
