package history

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"cachebro/cmd/cachebro/daemon/versions"
	"cachebro/store"
	"cachebro/store/leaf/event"
	"cachebro/store/onwire"
	"cachebro/store/wire"
)

// maxTreeDiff bounds the diff of a whole tree in bytes.
const maxTreeDiff = 64 << 20

func (h *History) diff(ctx context.Context, q wire.DiffQuery) (wire.DiffAnswer, []byte, error) {
	p, err := h.Paths.Clean(q.Path)
	if err != nil {
		return wire.DiffAnswer{}, nil, err
	}
	if q.Context <= 0 {
		q.Context = 3
	}
	h.Survey.Update(ctx, p)
	if !q.Since.IsZero() {
		q.Moments = true
		q.From, q.To = wire.ShowQuery{At: q.Since}, wire.ShowQuery{}
	}
	if q.Moments {
		if p == "" {
			h.Survey.TryUpdateAll(ctx)
		}
		return h.diffMoments(ctx, p, q)
	}
	from, to, err := h.sides(ctx, p, q)
	if err != nil {
		return wire.DiffAnswer{}, nil, err
	}
	var a wire.DiffAnswer
	var out bytes.Buffer
	versions.WriteDiff(&out, &a, from, to, q.Context)
	return a, out.Bytes(), nil
}

// sides returns the two contents that a diff of one path compares.
func (h *History) sides(ctx context.Context, p store.Path, q wire.DiffQuery) (from, to versions.Side, err error) {
	if versions.Given(q.To) {
		v, _, err := versions.Find(h.Store, p, q.To)
		if err != nil {
			return from, to, err
		}
		to, err = versions.SideOf(h.Store, v)
		if err != nil {
			return from, to, err
		}
		if q.New {
			return versions.Side{Path: v.Path}, to, nil
		}
		if !versions.Given(q.From) {
			prev, ok, err := versions.Replaced(h.Store, v)
			if err != nil || !ok && v.Prev == 0 {
				return versions.Side{Path: v.Path}, to, err
			}
			if !ok {
				prev, err = h.Store.Version(v.Prev)
				if err != nil {
					return from, to, err
				}
			}
			from, err = versions.SideOf(h.Store, prev)
			return from, to, err
		}
	} else if p == "" {
		return from, to, wire.Errorf(wire.ErrBadRequest, "name a file, or give a time with --since", "a diff of the whole tree needs a time")
	} else {
		to, err = h.present(ctx, p)
		if err != nil {
			return from, to, err
		}
	}
	if versions.Given(q.From) {
		v, _, err := versions.Find(h.Store, p, q.From)
		if err != nil {
			return from, to, err
		}
		from, err = versions.SideOf(h.Store, v)
		return from, to, err
	}
	// Show the newest change, by comparing it with the version before it.
	hist, err := h.Store.History(p, true)
	if err != nil {
		return from, to, err
	}
	if len(hist) == 0 {
		return from, to, wire.Errorf(wire.ErrNotFound, "cachebro status shows how far the first scan is", "no version of %s is known", onwire.Display(p))
	}
	if len(hist) == 1 {
		if hist[0].Op == store.OpBaseline { // nothing has changed since the file was found
			from, err = versions.SideOf(h.Store, hist[0])
			return from, to, err
		}
		return versions.Side{Path: p}, to, nil
	}
	from, err = versions.SideOf(h.Store, hist[len(hist)-2])
	return from, to, err
}

func (h *History) present(ctx context.Context, p store.Path) (versions.Side, error) {
	if h.Survey.Absent {
		v, ok, err := h.Store.Current(p)
		if err != nil || !ok || v.Deleted() {
			return versions.Side{Path: p}, err
		}
		return versions.SideOf(h.Store, v)
	}
	st, err := h.Source.Lstat(ctx, p)
	if errors.Is(err, wire.ErrNotFound) {
		return versions.Side{Path: p}, nil
	}
	if err != nil {
		return versions.Side{}, err
	}
	s := versions.Side{Path: p, Exists: true, Mode: st.Mode}
	if st.IsLink() {
		v, ok, err := h.Store.Current(p)
		if err == nil && ok {
			s.Data = []byte(v.Target)
		}
		return s, err
	}
	l, err := h.Survey.Look(ctx, p)
	if err != nil {
		return s, err
	}
	s.Data, err = l.Content()
	return s, err
}

// moment returns the position in the log of a version or a time.
func (h *History) moment(q wire.ShowQuery) (uint64, error) {
	switch {
	case q.Number != 0:
		return 0, wire.Errorf(wire.ErrBadRequest, "name the file", "%d is the number of a version of one file, not a moment of the project", q.Number)
	case q.Seq > 0:
		return versions.Moment(h.Store, q.Seq)
	}
	return h.Store.SeqAt(q.At)
}

// diffMoments compares two moments. It covers each path in the subtree of p, including p itself,
// that changed between them.
func (h *History) diffMoments(ctx context.Context, p store.Path, q wire.DiffQuery) (wire.DiffAnswer, []byte, error) {
	var a wire.DiffAnswer
	start, err := h.moment(q.From)
	end := h.Store.Seq()
	if err == nil && versions.Given(q.To) {
		end, err = h.moment(q.To)
	}
	if err != nil {
		return a, nil, err
	}
	backwards := start > end
	start, end = min(start, end), max(start, end)
	changed := map[store.Path]bool{}
	var order []store.Path
	for seq := start; ; {
		vs, err := h.Store.Since(seq, 1000)
		if err != nil {
			return a, nil, err
		}
		if len(vs) == 0 {
			break
		}
		for _, v := range vs {
			if v.Seq > end {
				break
			}
			if _, ok := onwire.Below(string(v.Path), string(p)); (ok || p == "") && !changed[v.Path] && v.Class == event.Tracked {
				changed[v.Path] = true
				order = append(order, v.Path)
			}
		}
		seq = vs[len(vs)-1].Seq
		if seq >= end {
			break
		}
		if err := ctx.Err(); err != nil {
			return a, nil, err
		}
	}
	var out bytes.Buffer
	for _, path := range order {
		if err := ctx.Err(); err != nil {
			return a, nil, err
		}
		from, to, same, err := h.sidesAt(path, start, end)
		if err != nil {
			fmt.Fprintf(&out, "cannot compare %s: %v\n", onwire.Display(path), err)
		}
		if same || err != nil {
			continue
		}
		if backwards {
			from, to = to, from
		}
		versions.WriteDiff(&out, &a, from, to, q.Context)
		if out.Len() > maxTreeDiff {
			return a, nil, wire.Errorf(wire.ErrTooLarge, "give a path, or a later time", "the diff is larger than %d MiB", maxTreeDiff>>20)
		}
	}
	return a, out.Bytes(), nil
}

// sidesAt returns the states of a path at two positions in the log. same means that they are of one
// version. Then no content is read.
func (h *History) sidesAt(path store.Path, start, end uint64) (from, to versions.Side, same bool, err error) {
	was, err := h.versionAt(path, start)
	if err != nil {
		return from, to, false, err
	}
	is, err := h.versionAt(path, end)
	if err != nil || was.Seq == is.Seq {
		return from, to, err == nil, err
	}
	from, err = versions.SideOf(h.Store, was)
	if err == nil {
		to, err = versions.SideOf(h.Store, is)
	}
	return from, to, false, err
}

// versionAt returns the version of a path at a position in the log, which is a removal without a
// number if the path was unknown.
func (h *History) versionAt(path store.Path, seq uint64) (store.Version, error) {
	was, ok, err := h.Store.AtSeq(path, seq)
	if err != nil || ok {
		return was, err
	}
	// The baseline may have recorded the file later, but it had that state all along.
	if hist, err := h.Store.History(path, false); err == nil && len(hist) > 0 && hist[0].Op == store.OpBaseline {
		return hist[0], nil
	}
	return store.Version{Path: path, Op: store.OpUnlink}, nil
}
