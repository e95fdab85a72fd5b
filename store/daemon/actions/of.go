package actions

import (
	"cachebro/store"
	"cachebro/store/wire"
)

// Of finds the action that a version belongs to, as the log shows it: which versions
// are its, where it begins and ends, and how many there are. With most, looking back
// ends at so many of them.
func (s *Service) Of(v *store.View, of store.Version, most int) (has func(store.Version) bool, span wire.ActionSpan, n int, err error) {
	w := s.newWords()
	key, _ := w.keyOf(of)
	n = 1
	span = wire.ActionSpan{Key: key, First: of.Seq, Last: of.Seq}
	for _, oldest := range []bool{true, false} {
		g := &group{key: key, versions: []store.Version{of}, until: w.beginOf(of)}
		f, others := store.Filter{Oldest: oldest}, 0
		if oldest {
			f.After = of.Seq
		} else {
			f.Before = of.Seq
		}
		err = v.Each(f, func(o store.Version) bool {
			if k, _ := w.keyOf(o); k != key || o.Excluded() || store.OwnFile(o.Path) {
				others++
				return others < maxBeyond && !g.over(o.Time, oldest)
			}
			if others = 0; g.over(o.Time, oldest) {
				return false
			}
			n++
			g.versions[0], span.First, span.Last = o, min(span.First, o.Seq), max(span.Last, o.Seq)
			return oldest || most == 0 || n < most
		})
		if err != nil {
			return nil, span, n, err
		}
	}
	return func(o store.Version) bool {
		if o.Seq < span.First || o.Seq > span.Last {
			return false
		}
		k, _ := w.keyOf(o)
		return k == key
	}, span, n, nil
}

// Command says in words what made a version.
func (s *Service) Command(v store.Version) string {
	w := s.newWords()
	_, j := w.keyOf(v)
	return w.command(v, j)
}
