package portable

import (
	"bytes"

	"cachebro/store"
)

// Append adds a part to the history in a store. The store is a copy of another machine's history,
// filled only by parts, in order. contents may be nil. Versions that the store has are skipped, so
// a part may be added again. short means that contents of this part or of earlier ones may have
// been dropped where they were kept. Versions whose contents are missing are then stored without
// them. Append returns ErrNewer, ErrNoSpace, or an error that describes the fault of a stream. Some
// of the part may then be stored.
func Append(s *store.Store, contents, log []byte, short bool, o Options) error {
	return s.FillNew(func(f *store.Filler) error {
		m := &importer{f: f, o: o, ended: map[string]bool{}, after: s.Seq(), short: short}
		limit := max(s.Options().MaxBlob, 1<<20)
		if contents != nil {
			if _, err := readRecords(bytes.NewReader(contents), contentsMagic, limit, m.take); err != nil {
				return err
			}
		}
		_, err := readRecords(bytes.NewReader(log), logMagic, limit, m.take)
		return err
	})
}
