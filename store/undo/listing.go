package undo

import (
	"cmp"
	"slices"

	"cachebro/store"

	"golang.org/x/sys/unix"
)

// List tells what was in a directory at a moment, sorted by name: what Restore would
// make of it. "" is the root. False: there was no such directory.
func (p Planner) List(dir store.Path, seq uint64) (out []Entry, found bool, err error) {
	m := p.looker()
	err = p.Store.View(func(v *store.View) error {
		m.view = v
		found, err = m.wasDir(dir, seq)
		if err != nil || !found {
			return err
		}
		names, err := m.names(dir, seq)
		if err != nil {
			return err
		}
		for _, name := range names {
			e, there, err := m.was(name, seq)
			if err != nil {
				return err
			}
			if there {
				out = append(out, e)
			}
		}
		return nil
	})
	return out, found, err
}

// Now is where a directory of a moment is now; false: it is not there any more.
func (p Planner) Now(dir store.Path, seq uint64) (now store.Path, there bool, err error) {
	m := p.looker()
	err = p.Store.View(func(v *store.View) error {
		m.view = v
		names, err := m.laterNames(dir, seq)
		if err == nil && names[len(names)-1].until == never {
			now, there = names[len(names)-1].path, true
		}
		return err
	})
	return now, there, err
}

// listing lists directories of the past. It follows the renames of each directory in the log.
type listing struct {
	*maker
	wentTo map[store.Path][]laterName // which names directories of a moment had later, as far as requested
}

func (p Planner) looker() *listing {
	return &listing{newMaker(Planner{Store: p.Store}, ""), map[store.Path][]laterName{}}
}

// wasDir: the root, or a directory at that moment, by itself or by what was in it.
func (m *listing) wasDir(dir store.Path, seq uint64) (bool, error) {
	if dir == "" {
		return true, nil
	}
	e, there, err := m.was(dir, seq)
	return there && e.Mode&unix.S_IFMT == unix.S_IFDIR, err
}

// was is one path at a moment; false: it was not there. What was first seen after its
// directory had been renamed was where the directory was.
func (m *listing) was(path store.Path, seq uint64) (e Entry, there bool, err error) {
	e, there, first, err := m.told(path, seq)
	if err != nil || first.Seq == 0 || store.OwnFile(path) {
		return e, there, err
	}
	dir, name := split(path)
	names, err := m.laterNames(dir, seq)
	if err != nil {
		return e, false, err
	}
	for i, h := range names {
		at, was, found := e, there, first
		if i > 0 {
			at, was, found, err = m.told(join(h.path, name), seq)
			if err != nil {
				return e, false, err
			}
		}
		// What was made there later is younger than the directory's coming.
		if was && found.Seq > h.since && found.Seq <= h.until && (i == 0 || found.Stat.Birth < h.came) {
			at.Path = path
			return at, true, nil
		}
	}
	if first.Seq != unknown && len(names) == 1 {
		return Entry{}, false, nil // it was made later
	}
	// A directory of which nothing is known by itself was there when something was in it.
	within, err := m.holds(path, seq)
	return Entry{Path: path, Mode: unix.S_IFDIR | 0o755}, within, err
}

// unknown is the number of no version: nothing is known of a path by itself.
const unknown = never

// told is what a path's own versions say of it. first is the one by which something was
// found there after the moment, Seq 0: it is known from before it.
func (m *listing) told(path store.Path, seq uint64) (e Entry, there bool, first store.Version, err error) {
	if store.OwnFile(path) {
		return e, false, first, nil
	}
	own, err := m.knownOf(path, seq)
	if err != nil {
		return e, false, first, err
	}
	switch {
	case len(own) == 0:
		first.Seq = unknown
	case own[0].Seq > seq:
		first = own[0]
	}
	if len(own) > 0 && own[len(own)-1].Seq <= seq && own[len(own)-1].Deleted() {
		return e, false, first, nil // nor was what had been in it
	}
	lost := len(m.plan.Lost)
	w, known, err := m.stateThen(path, own, seq)
	if err != nil {
		return e, false, first, err
	}
	switch {
	case known && !w.absent():
		e = Entry{Path: path, Mode: w.mode, Size: w.size, Mtime: w.mtime, Target: w.target, Blob: w.blob, Seq: w.seq}
		if w.owned {
			e.UID, e.GID = w.uid, w.gid
		}
		if w.regular() && w.blob == (store.Hash{}) && w.size > 0 {
			e.Why = cmp.Or(w.noContent, "nothing was kept of its content")
		}
		return e, true, first, nil
	case !known && len(m.plan.Lost) > lost:
		first := own[0]
		e = Entry{Path: path, Mode: cmp.Or(first.Stat.Mode, unix.S_IFREG|0o644), Size: first.Stat.Size, Mtime: first.Stat.Mtime, Seq: first.Seq,
			Why: cmp.Or(m.plan.Lost[len(m.plan.Lost)-1].Why, "what was there is not known")}
		return e, true, first, nil
	}
	return e, false, first, nil // it was made later, with what was found in it, or nothing is known
}

// laterName is a name that a directory had: after one version, and up to another.
type laterName struct {
	path         store.Path
	since, until uint64
	came         int64 // when, ns since the epoch; 0: it was there at the moment
}

// never is after all versions.
const never = ^uint64(0)

// laterNames are the names that a directory of a moment had from then on, the first one its
// own. It takes them by its own renames and by those of the directories above it.
func (m *listing) laterNames(dir store.Path, seq uint64) ([]laterName, error) {
	if known := m.wentTo[dir]; known != nil {
		return known, nil
	}
	out := []laterName{{path: dir, since: seq, until: never}}
	for range 1000 {
		at := &out[len(out)-1]
		left, by, err := m.leaving(at)
		if err != nil {
			return nil, err
		}
		if left.Seq == 0 {
			break
		}
		at.until = left.Seq
		to := left.To
		if left.Op == store.OpExchange {
			to = left.From
		}
		if to == "" || left.Op != store.OpExchange && left.Op != store.OpMoved {
			break // it is gone: removed, or something else has taken its name
		}
		out = append(out, laterName{path: to + at.path[len(by):], since: left.Seq, until: never, came: left.Time})
	}
	m.wentTo[dir] = out
	return out, nil
}

// leaving is the version by which a directory left a name, and whose name that is: its
// own, or that of a directory above it. Seq 0: it did not.
func (m *listing) leaving(at *laterName) (first store.Version, by store.Path, err error) {
	for p := at.path; p != ""; p, _ = split(p) {
		if cur, found, err := m.view.Current(p); err != nil || !found || cur.Seq <= at.since {
			if err != nil {
				return first, by, err
			}
			continue
		}
		own, err := m.view.History(p, false)
		if err != nil {
			return first, by, err
		}
		for _, v := range own {
			// What came by the same rename is the directory itself, or came with it.
			if v.Seq <= at.since || v.Time == at.came {
				continue
			}
			switch v.Op {
			case store.OpChmod, store.OpBaseline, store.OpSeen, store.OpOutside:
				if !v.Deleted() && stateOf(v).dir() {
					continue // it is there
				}
			}
			if first.Seq == 0 || v.Seq < first.Seq {
				first, by = v, p
			}
			break
		}
	}
	return first, by, nil
}

// names are the paths of everything of which something is known in a directory of a
// moment, under whatever name it had later.
func (m *listing) names(dir store.Path, seq uint64) ([]store.Path, error) {
	names, err := m.laterNames(dir, seq)
	if err != nil {
		return nil, err
	}
	var out []store.Path
	for _, h := range names {
		err := m.view.Children(h.path, func(c store.Path) bool {
			_, name := split(c)
			out = append(out, join(dir, name))
			return true
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// describes: a version gives the content of what the version below it left. It is a
// baseline, or that of a file that came under a tracked name.
func describes(v, below store.Version) bool {
	if st := stateOf(v); v.Op == store.OpBaseline && !st.regular() { // found once more, under a name of another class
		return !below.Deleted() && st.in.Ino != 0 && st.in == store.InodeOf(below.Stat) && st.equal(stateOf(below))
	}
	shown := v.Op == store.OpWrite && below.From != "" && v.Time == below.Time
	return (v.Op == store.OpBaseline || shown) && sameBytes(v, below)
}

// sameBytes: two versions are of one file, which was not written to between them.
func sameBytes(a, b store.Version) bool {
	return regular(a) && !b.Deleted() && regular(b) && store.InodeOf(a.Stat) == store.InodeOf(b.Stat) &&
		a.Stat.Size == b.Stat.Size && (a.Stat.Mtime == b.Stat.Mtime || a.Stat.Size == 0) // who truncates an empty file changes its time
}

// described is the state that a version left, with the content that was found to be
// its only before it was destroyed, under whatever name it had by then.
func (m *listing) described(own []store.Version, i int) (state, error) {
	st := stateOf(own[i])
	if !st.regular() || st.blob != (store.Hash{}) {
		return st, nil
	}
	for is := own[i]; i+1 < len(own); is = own[i] {
		next := own[i+1]
		to := store.Path("")
		switch {
		case describes(next, is):
			st.blob, st.noContent = next.Blob, next.NoContent
			return st, nil
		case next.Op == store.OpChmod && sameBytes(next, is):
			i++
		case next.Op == store.OpMoved:
			to = next.To
		case next.Op == store.OpExchange:
			to = next.From // what came from there is here now
		default:
			return st, nil
		}
		if to == "" {
			continue
		}
		var err error
		own, err = m.view.History(to, false)
		if err != nil {
			return st, err
		}
		i = slices.IndexFunc(own, func(v store.Version) bool { return v.From == is.Path && v.Prev == is.Seq })
		if i < 0 || !sameBytes(own[i], is) {
			return st, nil
		}
	}
	return st, nil
}

// began: before its first known version the path did not exist.
func began(v store.Version) bool {
	switch v.Op {
	case store.OpCreate, store.OpMkdir, store.OpSymlink, store.OpMknod, store.OpRename, store.OpLink, store.OpUnlink, store.OpRmdir, store.OpMoved:
		return true
	}
	return false
}

// regular reports whether a version is of a regular file, whether or not it exists.
func regular(v store.Version) bool {
	kind := v.Stat.Mode & unix.S_IFMT
	return kind == unix.S_IFREG || kind == 0
}

// knownOf are the versions by which a path is told at a moment: the newest alone where
// it says all.
func (m *listing) knownOf(path store.Path, seq uint64) ([]store.Version, error) {
	cur, found, err := m.view.Current(path)
	if err != nil {
		return nil, err
	}
	if found && cur.Seq <= seq && (cur.Deleted() || !regular(cur) || cur.Blob != (store.Hash{})) {
		return []store.Version{cur}, nil
	}
	return m.view.History(path, false)
}

// holds: something was below a directory at a moment.
func (m *listing) holds(dir store.Path, seq uint64) (found bool, err error) {
	names, err := m.names(dir, seq)
	if err != nil {
		return false, err
	}
	for _, name := range names {
		_, found, err = m.was(name, seq)
		if found || err != nil {
			return found, err
		}
	}
	return false, nil
}

// stateThen is what a path, of which these versions are known, was at a moment; false:
// that is not known.
func (m *listing) stateThen(path store.Path, own []store.Version, seq uint64) (st state, ok bool, err error) {
	if len(own) == 0 {
		return st, false, nil
	}
	for i, v := range own {
		if v.Seq > seq && notSaved(v) && (v.Excluded() || i == 0) {
			m.lose(store.Conflict{Path: path, Why: v.NoContent, Actor: v.Actor, Time: v.Time})
			return st, false, nil
		}
	}
	for i, then := range slices.Backward(own) {
		if then.Seq <= seq {
			st, err = m.described(own, i)
			return st, true, err
		}
	}
	switch first := own[0]; {
	case first.Op == store.OpBaseline || first.Op == store.OpSeen || first.Op == store.OpOutside:
		// It was there before anybody looked: what was found is what was.
		st, err = m.described(own, 0)
		if err != nil {
			return st, false, err
		}
	case !beforeRename(first).absent():
		st = beforeRename(first)
	case began(first) || madeLater(own, first):
	default:
		m.loseBefore(first)
		return st, false, nil
	}
	return st, true, nil
}
