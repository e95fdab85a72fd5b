package store

import "slices"

// saveTime bounds how long a process may take for an atomic save, in ns.
const saveTime = int64(60e9)

// MadeFor tells an atomic save from a rename: when the process that renamed a
// file had made it itself a moment before, as sed -i and editors do, it is the
// number of the version that it began with. 0: it was renamed for its own sake.
func (s *Store) MadeFor(v Version) (uint64, error) {
	if v.Op != OpRename || v.Plan != "" || v.Actor.PID == 0 || !isRegular(v.Stat) {
		return 0, nil
	}
	own, err := s.History(v.From, false)
	if err != nil {
		return 0, err
	}
	first, made := uint64(0), false
	for _, o := range slices.Backward(own) {
		if o.Seq > v.Seq || o.Op == OpMoved && o.Seq+1 == v.Seq {
			continue
		}
		if o.Deleted() || o.Actor.PID != v.Actor.PID || o.Actor.Start != v.Actor.Start || v.Time-o.Time > saveTime {
			break
		}
		// A chmod through the descriptor is told of before the file is.
		first, made = o.Seq, made || o.Op == OpCreate
	}
	if !made {
		return 0, nil
	}
	return first, nil
}
