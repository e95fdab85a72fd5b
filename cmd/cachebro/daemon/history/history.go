package history

import (
	"context"
	"slices"

	"cachebro/cmd/cachebro/daemon/attribution"
	"cachebro/cmd/cachebro/daemon/versions"
	"cachebro/store"
	"cachebro/store/onwire"
	"cachebro/store/wire"
)

func (h *History) log(ctx context.Context, r *wire.Request, q wire.LogQuery) (any, []byte, error) {
	p, err := h.Paths.Clean(q.Path)
	if err != nil {
		return nil, nil, err
	}
	ops, err := onwire.ParseOps(q.Ops)
	if err != nil {
		return nil, nil, err
	}
	session, err := versions.Session(h.Store, q.Session)
	if err != nil {
		return nil, nil, err
	}
	behind := h.Survey.UpdateSoon(ctx, p)
	if p == "" && q.Before == 0 && q.After == 0 {
		h.Survey.TryUpdateAll(ctx)
	}
	marks, only := h.Lost.Marks(ctx)
	if !q.Lost {
		only = nil
	}
	match := only
	if q.NotOwn {
		others := versions.NotOwn(h.Attribution.Asker(r.Peer.PID))
		match = func(v store.Version) bool { return others(v) && (only == nil || only(v)) }
	}
	vs, more, err := h.Store.Log(store.Filter{
		Match: match,
		Path:  p, Session: session,
		Since: q.Since, Until: q.Until, Before: q.Before, After: q.After, Ops: ops, Oldest: q.Oldest, Limit: min(q.Limit, 100_000), Baselines: q.Baselines,
	})
	if err != nil {
		return nil, nil, err
	}
	a := wire.LogAnswer{More: more, Behind: behind, Versions: make([]wire.Version, len(vs))}
	numbers := h.numbers(p, vs)
	words := attribution.OpenProcesses(h.Store).FillCommandLines()
	for i, v := range vs {
		words(&v)
		a.Versions[i] = onwire.Version(v)
		a.Versions[i].Number, a.Versions[i].Lost = numbers[v.Seq], marks[v.Seq]
		a.Versions[i].Made, err = h.Store.MadeFor(v)
		if err != nil {
			return nil, nil, err
		}
	}
	if !q.Lost && session == "" && len(ops) == 0 {
		err = h.addGapsAndNotices(&a, p, q, vs)
	}
	return a, nil, err
}

// numbers returns the 1-based position of each version in the history of a single file.
func (h *History) numbers(p store.Path, vs []store.Version) map[uint64]int {
	if p == "" || len(vs) == 0 {
		return nil
	}
	v, ok, err := h.Store.Current(p)
	if err != nil || !ok || v.Stat.IsDir() {
		return nil
	}
	hist, err := h.Store.History(p, true)
	if err != nil {
		return nil
	}
	out := make(map[uint64]int, len(hist))
	for i, h := range hist {
		out[h.Seq] = i + 1
	}
	return out
}

// addGapsAndNotices adds the gaps and notices between the page's versions.
func (h *History) addGapsAndNotices(a *wire.LogAnswer, p store.Path, q wire.LogQuery, vs []store.Version) error {
	from, to := q.Since, q.Until
	if len(vs) > 0 {
		first, last := vs[0].When(), vs[len(vs)-1].When()
		if q.Oldest {
			first, last = last, first
		}
		if a.More && !q.Oldest || q.After > 0 {
			from = last
		}
		if a.More && q.Oldest || q.Before > 0 {
			to = first
		}
	}
	var err error
	a.Gaps, a.Notices, err = versions.GapsAndNotices(h.Store, p, from, to)
	if q.Oldest {
		slices.Reverse(a.Gaps)
		slices.Reverse(a.Notices)
	}
	return err
}

func (h *History) show(ctx context.Context, q wire.ShowQuery) (wire.Version, []byte, error) {
	p, err := h.Paths.Clean(q.Path)
	if err != nil {
		return wire.Version{}, nil, err
	}
	h.Survey.Update(ctx, p)
	v, n, err := versions.Find(h.Store, p, q)
	if err != nil {
		return wire.Version{}, nil, err
	}
	attribution.OpenProcesses(h.Store).FillCommandLines()(&v)
	out := onwire.Version(v)
	out.Number = n
	body, err := versions.Content(h.Store, v)
	return out, body, err
}
