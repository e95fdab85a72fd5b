package actions

import (
	"slices"
	"time"

	"cachebro/store"
	"cachebro/store/onwire"
	"cachebro/store/wire"
)

const (
	defaultLimit = 100
	defaultFiles = 1000
	// silence is the time without a change after which a job counts as ended, in ns.
	silence = int64(30 * time.Second)
	// clockSlack is how far the clocks of hooks and of the mount may differ, in ns.
	clockSlack = int64(time.Second)
	// maxVersions bounds the versions that one page holds in memory. An action that has
	// begun is still read to its end.
	maxVersions = 50_000
	// When a page has all its actions, their remaining versions are read too. maxBeyond bounds how
	// many versions of other actions are read on the way.
	maxBeyond = 10_000
	// wholePage bounds how many versions of large actions one page reads, because reading all of
	// them would take seconds. At least minWhole versions of each such action are read. These are
	// its newest versions, or its first ones if the log is read from its beginning.
	wholePage = 5000
	minWhole  = 1000
)

// group is an action while its versions are being found.
type group struct {
	key      string
	versions []store.Version // in the direction of the walk
	job      job
	begin    int64 // when the action began, in ns; 0 if unknown, in which case a pause ends the action
	// The versions that were not read: their number, the one farthest in the direction of the walk,
	// and its time.
	passed  int
	far     uint64
	farTime int64
	blocks  int // number of blocks of the log that were read and hold only versions of the group
}

func (g *group) span() wire.ActionSpan {
	a, b := g.versions[0].Seq, g.versions[len(g.versions)-1].Seq
	x := wire.ActionSpan{Key: g.key, First: min(a, b), Last: max(a, b)}
	if g.passed > 0 {
		x.First, x.Last = min(x.First, g.far), max(x.Last, g.far)
	}
	return x
}

// last returns the time of the farthest version read for the group.
func (g *group) last(oldest bool) int64 {
	t := g.versions[len(g.versions)-1].Time
	switch {
	case g.passed == 0:
		return t
	case oldest:
		return max(t, g.farTime)
	}
	return min(t, g.farTime)
}

// isOver reports whether a version of time t is too far from g to belong to it.
func (g *group) isOver(t int64, oldest bool) bool {
	last := g.last(oldest)
	if g.begin != 0 && !oldest {
		return t < g.begin-clockSlack
	}
	if g.begin != 0 {
		return false // how long a tool call runs is not known
	}
	if oldest {
		return t-last > silence
	}
	return last-t > silence
}

// walk groups the versions that a filter selects. seq and skip determine where the next page
// begins.
func (s *Service) walk(w *describer, v *store.View, f store.Filter, q wire.ActionsQuery) (groups []*group, more bool, seq uint64, skip []wire.ActionSpan, err error) {
	limit := q.Limit
	if limit <= 0 {
		limit = defaultLimit
	}
	open := map[string]*group{}
	writers := map[store.Path][]writer{}
	total, beyond := 0, 0
	alone := map[uint64]*group{} // by store.Version.Who: the action that the writer's versions belong to
	f.Pass = func(b store.Block) bool {
		g := alone[b.Who]
		if q.Together || g == nil || open[g.key] != g {
			return false
		}
		if b.Gap > silence && g.begin == 0 {
			return false
		}
		near, end := b.Max, b.Min
		if q.Oldest {
			near, end = end, near
		}
		if g.isOver(near, q.Oldest) || g.begin != 0 && g.isOver(end, q.Oldest) {
			return false
		}
		if g.blocks++; g.blocks < wholePage/256 && (len(g.versions) < minWhole || total < wholePage) {
			return false
		}
		g.passed += int(b.Last - b.First + 1)
		g.far, g.farTime = b.First, end
		if q.Oldest {
			g.far = b.Last
		}
		return true
	}
	err = v.Each(f, func(o store.Version) bool {
		if inNoAction(o) {
			return true
		}
		key, jb := "all", job{}
		if !q.Together {
			key, jb = w.keyOf(o)
		}
		if slices.ContainsFunc(q.Skip, func(x wire.ActionSpan) bool { return x.Key == key && x.First <= o.Seq && o.Seq <= x.Last }) {
			return true
		}
		g := open[key]
		if g != nil && !q.Together && g.isOver(o.Time, q.Oldest) {
			g = nil
		}
		if g == nil {
			if len(groups) == limit || total >= maxVersions {
				if !more {
					more, seq = true, o.Seq+1
					if q.Oldest {
						seq = o.Seq - 1
					}
				}
				if beyond++; beyond >= maxBeyond || beyond%64 == 1 && allOver(open, o.Time, q.Oldest) {
					return false
				}
				return true
			}
			g = &group{key: key, job: jb, begin: w.beginOf(o)}
			groups, open[key] = append(groups, g), g
		}
		if len(g.versions)%64 == 0 && w.attributedTo(o).Seq == o.Seq {
			alone[o.Who()] = g
		}
		g.versions = append(g.versions, o)
		if !q.Together && o.Op != store.OpMoved {
			writers[o.Path] = w.noteOtherWriters(writers[o.Path], writer{key, o, jb})
		}
		total++
		return true
	})
	if more {
		for _, x := range q.Skip {
			if !q.Oldest && x.First < seq || q.Oldest && x.Last > seq {
				skip = append(skip, x)
			}
		}
		for _, g := range groups {
			if x := g.span(); !q.Oldest && x.First < seq || q.Oldest && x.Last > seq {
				skip = append(skip, x)
			}
		}
	}
	return groups, more, seq, skip, err
}

// inNoAction reports whether a version belongs to no action, because it is of an excluded path or of
// one of cachebro's own files.
func inNoAction(o store.Version) bool { return o.Excluded() || store.OwnFile(o.Path) }

func allOver(open map[string]*group, t int64, oldest bool) bool {
	for _, g := range open {
		if !g.isOver(t, oldest) {
			return false
		}
	}
	return true
}

// match returns a filter for the versions of an author.
func match(author string) func(store.Version) bool {
	if author == "" {
		return nil
	}
	return func(v store.Version) bool { return onwire.Actor(v.Actor).Is(author) }
}

// writer is an action that made a version of a path.
type writer struct {
	key string
	v   store.Version
	job job
}

// noteOtherWriters records in w.also who changed a path between two versions of the same action.
func (w *describer) noteOtherWriters(before []writer, now writer) []writer {
	if n := len(before); n > 0 && before[n-1].key == now.key {
		return before
	}
	if i := slices.IndexFunc(before, func(b writer) bool { return b.key == now.key }); i >= 0 {
		if w.also[now.key] == nil {
			w.also[now.key] = map[store.Path]string{}
		}
		w.also[now.key][now.v.Path] = w.command(before[i+1].v, before[i+1].job)
	}
	return append(before, now)
}
