package undo

import (
	"cmp"
	"slices"

	"cachebro/store"

	"golang.org/x/sys/unix"
)

// Entry is the state of a path at a moment.
type Entry struct {
	Path     store.Path
	Mode     uint32 // st_mode
	Size     int64
	Mtime    int64 // ns since the epoch
	UID, GID uint32
	Target   string     // target of a symlink
	Blob     store.Hash // content of a regular file; zero: empty, or unknown for the reason Why
	Why      string     // why the content is unknown
	Seq      uint64     // the version that recorded the state; 0: only its children are known
}

func entryOf(p store.Path, st state) Entry {
	e := Entry{Path: p, Mode: st.mode, Size: st.size, Mtime: st.mtime, Target: st.target, Blob: st.blob, Seq: st.seq}
	if st.owned {
		e.UID, e.GID = st.uid, st.gid
	}
	if st.regular() && st.blob == (store.Hash{}) && st.size > 0 {
		e.Why = cmp.Or(st.noContent, "its content was not saved")
	}
	return e
}

// List returns the entries of a directory at a moment, sorted by name, as Restore would restore
// them. "" is the root. found is false if there was no such directory.
func (p Planner) List(dir store.Path, seq uint64) (out []Entry, found bool, err error) {
	m := p.looker()
	err = p.Store.View(func(v *store.View) error {
		m.view = v
		out, found, err = m.list(dir, seq)
		return err
	})
	return out, found, err
}

func (m *listing) list(dir store.Path, seq uint64) (out []Entry, found bool, err error) {
	found, err = m.wasDir(dir, seq)
	if err != nil || !found {
		return nil, false, err
	}
	names, err := m.pathsIn(dir, seq)
	if err != nil {
		return nil, false, err
	}
	for _, name := range names {
		e, there, err := m.entryAt(name, seq)
		if err != nil {
			return nil, false, err
		}
		if there {
			out = append(out, e)
		}
	}
	return out, true, nil
}

// Now returns the present path of a directory that existed at a moment, or false if it does not
// exist now.
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

// listing lists directories of the past. It follows the renames of each directory in the log, and
// reads only the newest versions of most paths. Reading the cells of a directory would read its
// whole history.
type listing struct {
	*maker
	later map[store.Path][]laterName // caches laterNames
}

func (p Planner) looker() *listing {
	return &listing{newMaker(Planner{Store: p.Store}, ""), map[store.Path][]laterName{}}
}

// wasDir reports whether a path was a directory at a moment.
func (m *listing) wasDir(dir store.Path, seq uint64) (bool, error) {
	if dir == "" {
		return true, nil
	}
	e, there, err := m.entryAt(dir, seq)
	return there && e.Mode&unix.S_IFMT == unix.S_IFDIR, err
}

// entryAt returns the entry of a path at a moment, or false if it did not exist. A file may first
// have been seen after its directory was renamed. Then its path at the moment follows from the
// directory's path at the moment.
func (m *listing) entryAt(path store.Path, seq uint64) (e Entry, there bool, err error) {
	e, there, first, err := m.ownEntry(path, seq)
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
			at, was, found, err = m.ownEntry(join(h.path, name), seq)
			if err != nil {
				return e, false, err
			}
		}
		seenThen := found.Seq > h.since && found.Seq <= h.until
		madeThere := i > 0 && found.Stat.Birth >= h.came // after the directory got this name
		if was && seenThen && !madeThere {
			at.Path = path
			return at, true, nil
		}
	}
	if first.Seq != unknown && len(names) == 1 {
		return Entry{}, false, nil // it was made later
	}
	// A directory without versions of its own existed if it had entries.
	within, err := m.hasEntries(path, seq)
	return Entry{Path: path, Mode: unix.S_IFDIR | 0o755}, within, err
}

// unknown is used as the number of a path's first version if the path has no version.
const unknown = never

// ownEntry returns the entry of a path according to the path's own versions. first is the path's
// first version if that is later than the moment. Its Seq is 0 if there is an earlier version.
func (m *listing) ownEntry(path store.Path, seq uint64) (e Entry, there bool, first store.Version, err error) {
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
		return e, false, first, nil
	}
	lost := len(m.lost)
	w, known, err := m.stateThen(path, own, seq)
	if err != nil {
		return e, false, first, err
	}
	switch {
	case known && !w.absent():
		return entryOf(path, w), true, first, nil
	case !known && len(m.lost) > lost:
		first := own[0]
		e = Entry{Path: path, Mode: cmp.Or(first.Stat.Mode, unix.S_IFREG|0o644), Size: first.Stat.Size, Mtime: first.Stat.Mtime, Seq: first.Seq,
			Why: cmp.Or(m.lost[len(m.lost)-1].Why, "what was there is not known")}
		return e, true, first, nil
	}
	return e, false, first, nil
}

// laterName is a path that a directory had from after version since up to version until.
type laterName struct {
	path         store.Path
	since, until uint64
	came         int64 // when it got this path, ns since the epoch; 0 if before the moment
}

// never is later than the number of each version.
const never = ^uint64(0)

// laterNames returns the paths that a directory has had since a moment, beginning with its path at
// that moment. A directory gets a new path if it, or a directory above it, is renamed.
func (m *listing) laterNames(dir store.Path, seq uint64) ([]laterName, error) {
	if known := m.later[dir]; known != nil {
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
	m.later[dir] = out
	return out, nil
}

// leaving returns the version by which a directory lost a path. by is the path of that version,
// which is that of the directory itself or of a directory above it. Seq is 0 if the directory still
// has the path.
func (m *listing) leaving(at *laterName) (first store.Version, by store.Path, err error) {
	for p := at.path; p != ""; p = p.Dir() {
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
			// Versions of the rename that gave the directory this path do not count.
			if v.Seq <= at.since || v.Time == at.came {
				continue
			}
			switch v.Op {
			case store.OpChmod, store.OpBaseline, store.OpSeen, store.OpOutside:
				if !v.Deleted() && stateOf(v).dir() {
					continue // the directory still exists
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

// pathsIn returns the paths of all entries that a directory has had since a moment, as if the
// directory had never been renamed.
func (m *listing) pathsIn(dir store.Path, seq uint64) ([]store.Path, error) {
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

// describes reports whether a version only adds the content of the version before it. Such a
// version is a baseline, or was recorded for a file that was renamed to a tracked name.
func describes(v, below store.Version) bool {
	if st := stateOf(v); v.Op == store.OpBaseline && !st.regular() {
		return !below.Deleted() && st.in.Ino != 0 && st.in == store.InodeOf(below.Stat) && st.equal(stateOf(below))
	}
	shown := v.Op == store.OpWrite && below.From != "" && v.Time == below.Time
	return (v.Op == store.OpBaseline || shown) && sameBytes(v, below)
}

// sameBytes reports whether two versions are of one file that was not written between them.
// Truncating an empty file changes its mtime only.
func sameBytes(a, b store.Version) bool {
	if !regular(a) || !regular(b) || b.Deleted() {
		return false
	}
	sameTime := a.Stat.Mtime == b.Stat.Mtime || a.Stat.Size == 0
	return store.InodeOf(a.Stat) == store.InodeOf(b.Stat) && a.Stat.Size == b.Stat.Size && sameTime
}

// described returns the state that a version left. If its content was saved only later, just before
// it was destroyed and perhaps under another name, the state includes that content.
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
			to = next.From // the file has that name now
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

// began reports whether a path did not exist before its first version v.
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

// knownOf returns the versions that are needed to know the state of a path at a moment. That is
// often the newest version alone.
func (m *listing) knownOf(path store.Path, seq uint64) ([]store.Version, error) {
	cur, found, err := m.view.Current(path)
	if err != nil {
		return nil, err
	}
	complete := cur.Deleted() || !regular(cur) || cur.Blob != store.Hash{}
	if found && cur.Seq <= seq && complete {
		return []store.Version{cur}, nil
	}
	return m.view.History(path, false)
}

// hasEntries reports whether a directory had entries at a moment.
func (m *listing) hasEntries(dir store.Path, seq uint64) (found bool, err error) {
	names, err := m.pathsIn(dir, seq)
	if err != nil {
		return false, err
	}
	for _, name := range names {
		_, found, err = m.entryAt(name, seq)
		if found || err != nil {
			return found, err
		}
	}
	return false, nil
}

// stateThen returns the state of a path at a moment. own holds the path's versions. ok is false if
// the state is unknown.
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
		// The file existed before it was first seen, in the same state.
		st, err = m.described(own, 0)
		if err != nil {
			return st, false, err
		}
	case !beforeRename(first).absent():
		st = beforeRename(first)
	case began(first) || madeLater(pointers(own), first):
	default:
		m.lose(unknownBefore(&first))
		return st, false, nil
	}
	return st, true, nil
}
