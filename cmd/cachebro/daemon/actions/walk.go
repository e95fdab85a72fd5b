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

// page is one page of groups while it is made.
type page struct {
	groups []*group
	more   bool              // there are groups after this page
	seq    uint64            // where the next page begins
	skip   []wire.ActionSpan // versions after seq that this page or an earlier one has
}

// walker groups versions.
type walker struct {
	page
	q       wire.ActionsQuery
	w       *describer
	limit   int
	open    map[string]*group // by key: the groups that further versions may join
	writers map[store.Path][]writer
	alone   map[uint64]*group // by store.Version.Who: the group that the writer's versions belong to
	total   int               // versions in groups
	beyond  int               // versions read since the page has all its groups
}

// walk groups the versions that a filter selects.
func (s *Service) walk(w *describer, v *store.View, f store.Filter, q wire.ActionsQuery) (page, error) {
	k := walker{q: q, w: w, limit: q.Limit, open: map[string]*group{}, writers: map[store.Path][]writer{}, alone: map[uint64]*group{}}
	if k.limit <= 0 {
		k.limit = defaultLimit
	}
	f.Pass = k.pass
	err := v.Each(f, k.take)
	if k.more {
		for _, x := range q.Skip {
			k.skipLater(x)
		}
		for _, g := range k.groups {
			k.skipLater(g.span())
		}
	}
	return k.page, err
}

// skipLater notes a span that the next page must skip if a part of it is after that page's begin.
func (k *walker) skipLater(x wire.ActionSpan) {
	if !k.q.Oldest && x.First < k.seq || k.q.Oldest && x.Last > k.seq {
		k.skip = append(k.skip, x)
	}
}

// pass reports whether a block of the log need not be read, because all its versions belong to a
// group of which enough were read. It counts them for the group.
func (k *walker) pass(b store.Block) bool {
	g := k.alone[b.Who]
	if k.q.Together || g == nil || k.open[g.key] != g {
		return false
	}
	paused := b.Gap > silence && g.begin == 0
	near, end, far := b.Max, b.Min, b.First
	if k.q.Oldest {
		near, end, far = b.Min, b.Max, b.Last
	}
	if paused || g.isOver(near, k.q.Oldest) || g.begin != 0 && g.isOver(end, k.q.Oldest) {
		return false
	}
	if g.blocks++; g.blocks < wholePage/store.BlockVersions && (len(g.versions) < minWhole || k.total < wholePage) {
		return false
	}
	g.passed += int(b.Last - b.First + 1)
	g.far, g.farTime = far, end
	return true
}

// take adds a version to its group. It returns false if nothing more has to be read.
func (k *walker) take(o store.Version) bool {
	if inNoAction(o) {
		return true
	}
	key, jb := "all", job{}
	if !k.q.Together {
		key, jb = k.w.keyOf(o)
	}
	if slices.ContainsFunc(k.q.Skip, func(x wire.ActionSpan) bool { return x.Key == key && x.First <= o.Seq && o.Seq <= x.Last }) {
		return true
	}
	g := k.open[key]
	if g == nil || !k.q.Together && g.isOver(o.Time, k.q.Oldest) {
		if len(k.groups) == k.limit || k.total >= maxVersions {
			return k.readOn(o)
		}
		g = &group{key: key, job: jb, begin: k.w.beginOf(o)}
		k.groups, k.open[key] = append(k.groups, g), g
	}
	if len(g.versions)%64 == 0 && k.w.attributedTo(o).Seq == o.Seq {
		k.alone[o.Who()] = g
	}
	g.versions = append(g.versions, o)
	if !k.q.Together && o.Op != store.OpMoved {
		k.writers[o.Path] = k.w.noteOtherWriters(k.writers[o.Path], writer{key, o, jb})
	}
	k.total++
	return true
}

// readOn is called with a version that belongs to no group of the page. It returns false if the
// page's groups can have no further versions, or only after too many others.
func (k *walker) readOn(o store.Version) bool {
	if !k.more {
		k.more, k.seq = true, o.Seq+1
		if k.q.Oldest {
			k.seq = o.Seq - 1
		}
	}
	k.beyond++
	return k.beyond < maxBeyond && !(k.beyond%64 == 1 && allOver(k.open, o.Time, k.q.Oldest))
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
