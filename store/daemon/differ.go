package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"syscall"

	"cachebro/store"
	"cachebro/store/daemon/onwire"
	"cachebro/store/diff"
	"cachebro/store/txt"
	"cachebro/store/wire"
	"cachebro/store/wire/visible"
)

// maxTreeDiff bounds the diff of a whole tree in bytes.
const maxTreeDiff = 64 << 20

// side is one side of a diff.
type side struct {
	path   store.Path
	exists bool
	mode   uint32
	data   []byte
}

func (d *Daemon) diff(ctx context.Context, q wire.DiffQuery) (wire.DiffAnswer, []byte, error) {
	p, err := d.paths.Clean(q.Path)
	if err != nil {
		return wire.DiffAnswer{}, nil, err
	}
	if q.Context <= 0 {
		q.Context = 3
	}
	d.settle(ctx, p)
	if !q.Since.IsZero() {
		if p == "" {
			d.settleTree(ctx)
		}
		return d.diffSince(ctx, p, q)
	}
	from, to, err := d.sides(ctx, p, q)
	if err != nil {
		return wire.DiffAnswer{}, nil, err
	}
	var a wire.DiffAnswer
	var out bytes.Buffer
	printDiff(&out, &a, from, to, q.Context)
	return a, out.Bytes(), nil
}

// sides resolves what a diff of one path compares.
func (d *Daemon) sides(ctx context.Context, p store.Path, q wire.DiffQuery) (from, to side, err error) {
	if given(q.To) {
		v, _, err := d.find(p, q.To)
		if err != nil {
			return from, to, err
		}
		if to, err = d.sideOf(v); err != nil {
			return from, to, err
		}
		if !given(q.From) {
			prev, ok, err := d.replaced(v)
			if err != nil || !ok && v.Prev == 0 {
				return side{path: v.Path}, to, err
			}
			if !ok {
				if prev, err = d.store.Version(v.Prev); err != nil {
					return from, to, err
				}
			}
			from, err = d.sideOf(prev)
			return from, to, err
		}
	} else if p == "" {
		return from, to, wire.Errorf(wire.ErrBadRequest, "name a file, or give a time with --since", "a diff of the whole tree needs a time")
	} else if to, err = d.present(ctx, p); err != nil {
		return from, to, err
	}
	if given(q.From) {
		v, _, err := d.find(p, q.From)
		if err != nil {
			return from, to, err
		}
		from, err = d.sideOf(v)
		return from, to, err
	}
	// The newest change: against the version before it.
	hist, err := d.store.History(p, true)
	if err != nil {
		return from, to, err
	}
	if len(hist) == 0 {
		return from, to, wire.Errorf(wire.ErrNotFound, "cachebro status tells how far the baseline is", "no version of %s is known", onwire.Display(p))
	}
	if len(hist) == 1 {
		if hist[0].Op == store.OpBaseline { // nothing has changed since it was found
			from, err = d.sideOf(hist[0])
			return from, to, err
		}
		return side{path: p}, to, nil
	}
	from, err = d.sideOf(hist[len(hist)-2])
	return from, to, err
}

// replaced is what a file that was renamed over its place took the place of: of
// an atomic save that is the version before, not the temporary file.
func (d *Daemon) replaced(v store.Version) (store.Version, bool, error) {
	if v.Op != store.OpRename {
		return v, false, nil
	}
	own, err := d.store.History(v.Path, false)
	if err != nil {
		return v, false, err
	}
	for i := len(own) - 1; i >= 0; i-- {
		if own[i].Seq < v.Seq {
			return own[i], !own[i].Deleted() || v.Plan != "", nil
		}
	}
	return v, false, nil
}

func (d *Daemon) sideOf(v store.Version) (side, error) {
	s := side{path: v.Path, exists: !v.Deleted(), mode: v.Stat.Mode}
	if !s.exists || s.mode&syscall.S_IFMT == syscall.S_IFDIR {
		return s, nil
	}
	if v.Blob == (store.Hash{}) && v.NoContent == "" && s.mode&syscall.S_IFMT == syscall.S_IFREG && v.Stat.Size == 0 {
		return s, nil // made and not yet written
	}
	var err error
	s.data, err = d.contentOf(v)
	return s, err
}

// present is a path as it is now.
func (d *Daemon) present(ctx context.Context, p store.Path) (side, error) {
	st, err := d.source.Lstat(ctx, p)
	if errors.Is(err, wire.ErrNotFound) {
		return side{path: p}, nil
	}
	if err != nil {
		return side{}, err
	}
	s := side{path: p, exists: true, mode: st.Mode}
	if st.Mode&syscall.S_IFMT == syscall.S_IFLNK {
		v, ok, err := d.store.Current(p)
		if err == nil && ok {
			s.data = []byte(v.Target)
		}
		return s, err
	}
	l, err := d.look(ctx, p)
	if err != nil {
		return s, err
	}
	s.data, err = l.content()
	return s, err
}

// diffSince compares every path below p that changed since a time with what it
// was then.
func (d *Daemon) diffSince(ctx context.Context, p store.Path, q wire.DiffQuery) (wire.DiffAnswer, []byte, error) {
	var a wire.DiffAnswer
	start, err := d.store.SeqAt(q.Since)
	if err != nil {
		return a, nil, err
	}
	changed := map[store.Path]bool{}
	var order []store.Path
	for seq := start; ; {
		vs, err := d.store.Since(seq, 1000)
		if err != nil {
			return a, nil, err
		}
		if len(vs) == 0 {
			break
		}
		for _, v := range vs {
			if _, ok := onwire.Below(string(v.Path), string(p)); (ok || p == "") && !changed[v.Path] && v.Class == 0 {
				changed[v.Path] = true
				order = append(order, v.Path)
			}
		}
		seq = vs[len(vs)-1].Seq
		if err := ctx.Err(); err != nil {
			return a, nil, err
		}
	}
	var out bytes.Buffer
	for _, path := range order {
		if err := ctx.Err(); err != nil {
			return a, nil, err
		}
		was, ok, err := d.store.AtSeq(path, start)
		if err != nil {
			return a, nil, err
		}
		from := side{path: path}
		if !ok { // found later, by the baseline: that is what it was
			if hist, err := d.store.History(path, false); err == nil && len(hist) > 0 && hist[0].Op == store.OpBaseline {
				was, ok = hist[0], true
			}
		}
		if ok {
			if from, err = d.sideOf(was); err != nil {
				fmt.Fprintf(&out, "cannot compare %s: %v\n", onwire.Display(path), err)
				continue
			}
		}
		now, ok, err := d.store.Current(path)
		if err != nil || !ok {
			return a, nil, err
		}
		to, err := d.sideOf(now)
		if err != nil {
			fmt.Fprintf(&out, "cannot compare %s: %v\n", onwire.Display(path), err)
			continue
		}
		printDiff(&out, &a, from, to, q.Context)
		if out.Len() > maxTreeDiff {
			return a, nil, wire.Errorf(wire.ErrTooLarge, "give a path, or a later time", "the diff is larger than %d MiB", maxTreeDiff>>20)
		}
	}
	return a, out.Bytes(), nil
}

// printDiff appends the diff of one file in git's form and counts it.
func printDiff(out *bytes.Buffer, a *wire.DiffAnswer, from, to side, lines int) {
	if !from.exists && !to.exists || from.exists && to.exists && from.mode&syscall.S_IFMT == syscall.S_IFDIR && to.mode&syscall.S_IFMT == syscall.S_IFDIR {
		return
	}
	// As git quotes them, so that it can apply what we print.
	aName, bName := visible.Name("a/"+string(from.path)), visible.Name("b/"+string(to.path))
	oldName, newName := aName, bName
	if !from.exists {
		oldName = "/dev/null"
	}
	if !to.exists {
		newName = "/dev/null"
	}
	modes := from.exists && to.exists && from.mode != to.mode && from.mode != 0 && to.mode != 0
	if bytes.Equal(from.data, to.data) && from.exists == to.exists && !modes && from.path == to.path {
		return
	}
	a.Files++
	fmt.Fprintf(out, "diff --git %s %s\n", aName, bName)
	switch {
	case !from.exists:
		fmt.Fprintf(out, "new file mode %06o\n", to.mode)
	case !to.exists:
		fmt.Fprintf(out, "deleted file mode %06o\n", from.mode)
	case modes:
		fmt.Fprintf(out, "old mode %06o\nnew mode %06o\n", from.mode, to.mode)
	}
	if from.exists && to.exists && from.path != to.path {
		fmt.Fprintf(out, "rename from %s\nrename to %s\n", visible.Name(string(from.path)), visible.Name(string(to.path)))
	}
	if txt.Binary(from.data) || txt.Binary(to.data) {
		if !bytes.Equal(from.data, to.data) {
			a.Binary = true
			fmt.Fprintf(out, "Binary files %s and %s differ\n", oldName, newName)
		}
		return
	}
	s := diff.Compare(from.data, to.data)
	if len(s.Edits) == 0 {
		return
	}
	a.Added += s.Added()
	a.Removed += s.Removed()
	fmt.Fprintf(out, "--- %s\n+++ %s\n", oldName, newName)
	out.Write(s.Body(lines))
}
