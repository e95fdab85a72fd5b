package undo

import (
	"maps"
	"slices"

	"cachebro/store"

	"golang.org/x/sys/unix"
)

// Side is the state of a path in another tree.
type Side struct {
	Mode   uint32 // st_mode; 0: absent
	Size   int64
	Blob   store.Hash // content of a regular file
	Target string     // target of a symlink
}

func (s Side) state() state {
	st := state{mode: s.Mode, size: s.Size, blob: s.Blob, target: s.Target, noContent: "its content was not sent"}
	if st.link() {
		st.mode = unix.S_IFLNK | 0o777
	}
	return st
}

func (e Entry) side() Side { return Side{Mode: e.Mode, Size: e.Size, Blob: e.Blob, Target: e.Target} }

// Elsewhere is the state of a path in another tree, for example on another machine. A plan gives the
// path the same state in this tree.
type Elsewhere struct {
	Path store.Path
	Was  *Side // state that Want replaces; only a path in this state is changed; nil: any
	Want Side
	Lost string // why Want is unknown; "": it is known
}

// Transfer is a set of changes that were found in another tree.
type Transfer struct {
	Title string
	Files []Elsewhere
	// Contents holds contents that the store may lack.
	Contents [][]byte
	// Held means that the process that carries out the plan has the content of every Want. Then only
	// contents that must be merged are needed here.
	Held bool
	// Merge merges the changes of a text into changes made here, if the changed lines do not overlap.
	// Force overwrites what was changed here.
	Merge, Force bool
}

// Elsewhere plans to make the changes of a transfer. A path whose state is not Was is in
// Conflicts, unless the changes can be merged or are forced. A file that exists in both trees keeps
// its owner, its attributes, and the bits of its mode that the transfer does not change. If Was is
// nil, only the executable bits of the mode are changed, and ignored files are left alone.
func (p Planner) Elsewhere(kind string, t Transfer) (*Draft, error) {
	return goals(p, kind, t.Title, t.Files, t.Contents, func(m *maker, f Elsewhere) (goal, bool, error) {
		if t.Held && f.Want.Blob != (store.Hash{}) {
			m.contents.held[f.Want.Blob] = true
		}
		return m.elsewhere(f, &t)
	})
}

// Wanted returns the contents that Elsewhere needs for a transfer and that the store lacks, with
// their sizes in bytes.
func (p Planner) Wanted(t Transfer) (map[store.Hash]int64, error) {
	m := newMaker(Planner{Store: p.Store}, "")
	m.wanted = map[store.Hash]int64{}
	err := p.Store.View(func(v *store.View) error {
		m.view = v
		for _, f := range t.Files {
			if _, _, err := m.elsewhere(f, &t); err != nil {
				return err
			}
		}
		return nil
	})
	return m.wanted, err
}

// want notes, for Wanted, that the plan needs the content of a state.
func (m *maker) want(st state) {
	if m.wanted != nil && st.regular() && st.blob != (store.Hash{}) && !m.contents.has(st.blob) {
		m.wanted[st.blob] = st.size
	}
}

// elsewhere returns the goal for one path. It returns false if there is nothing to do, or after
// listing a conflict or loss.
func (m *maker) elsewhere(f Elsewhere, t *Transfer) (g goal, ok bool, err error) {
	cur, _, err := m.view.Current(f.Path)
	if err != nil {
		return g, false, err
	}
	have, want := stateOf(cur), f.Want.state()
	was := want // unless Was says otherwise, only the executable bits of the mode are changed
	if f.Was != nil {
		was = f.Was.state()
	} else if (have.mode&0o111 == 0) != (want.mode&0o111 == 0) {
		was.mode = want.mode&^0o111 | have.mode&0o111
	}
	ignored := cur.Class != store.Class(0) && !have.absent()
	switch {
	case store.OwnFile(f.Path) || f.Was == nil && ignored: // such a file belongs to this tree alone
		return g, false, nil
	case f.Lost != "":
		if f.Was != nil || have.absent() || have.size != want.size {
			m.lose(store.Conflict{Path: f.Path, Why: f.Lost})
		}
		return g, false, nil
	case !want.absent() && !want.dir() && !want.regular() && !want.link():
		m.lose(store.Conflict{Path: f.Path, Why: "it is neither a file, a directory nor a symbolic link"})
		return g, false, nil
	}
	if !have.absent() && have.kind() == want.kind() {
		mode := have.mode
		switch {
		case was.kind() != want.kind(): // each tree made its own file
		case f.Was != nil && have.perm() == was.perm():
			mode = want.mode
		default:
			mode = mergedMode(have.mode, was.perm(), want.perm())
		}
		if have.sameFile(want) || f.Was != nil && was.sameFile(want) { // the content stays
			want = have
			want.seq, want.in = 0, store.Inode{}
		}
		want.mode, want.attrs = mode, have.attrs
	}
	if have.equal(want) {
		return g, false, nil
	}
	asExpected := f.Was == nil || have.sameFile(was) || have.sameFile(want)
	if !asExpected && !t.Force {
		merged, clean := state{}, false
		if t.Merge && have.regular() && was.regular() && want.regular() {
			m.want(was)
			m.want(want)
			merged, clean = m.contents.mergeContents(was, want, have)
		}
		if !clean {
			why := "it was also changed here"
			if have.absent() {
				why = "it is not here"
			}
			m.conflict(store.Conflict{Path: f.Path, Why: why, Actor: cur.Actor, Time: cur.Time})
			return g, false, nil
		}
		merged.mode = want.mode
		want = merged
	} else if !t.Held {
		m.want(want)
	}
	g = goal{path: f.Path, want: want, made: !want.absent()}
	m.withoutNewRights(&g)
	return g, true, nil
}

// mergedMode applies to the mode "have" the changes that lead from the mode "was" to the mode
// "want". Owner, group or others get no permission if "have" gives them none.
func mergedMode(have, was, want uint32) uint32 {
	added := want &^ was
	for _, users := range [...]uint32{0o700, 0o070, 0o007} {
		if have&users == 0 {
			added &^= users
		}
	}
	return have&^(was&^want) | added
}

// sameFile is like sameContent, but compares states of different trees. In one of these trees, the
// content of an empty file may be unknown.
func (s state) sameFile(o state) bool {
	bothEmpty := s.regular() && o.regular() && s.size == 0 && o.size == 0
	return bothEmpty || s.sameContent(o)
}

// Taken returns the changes that a query selects in this history, to undo them on another machine.
func (p Planner) Taken(q Query) (title string, of []Elsewhere, err error) {
	m := p.looker()
	err = p.Store.View(func(v *store.View) (err error) {
		m.view = v
		var sel selection
		sel, title, err = m.selected(q, map[uint64]bool{})
		if err != nil {
			return err
		}
		seqs := map[store.Path][]uint64{}
		for _, seq := range slices.Sorted(maps.Keys(sel)) {
			seqs[sel[seq].Path] = append(seqs[sel[seq].Path], seq)
		}
		for _, path := range sel.paths() {
			own := seqs[path]
			left, _, err := m.entryAt(path, own[len(own)-1])
			if err != nil {
				return err
			}
			then, _, err := m.entryAt(path, own[0]-1)
			if err != nil {
				return err
			}
			was := left.side()
			e := Elsewhere{Path: path, Was: &was, Want: then.side(), Lost: then.Why}
			if store.OwnFile(path) || e.Lost == "" && e.Want == was {
				continue
			}
			if e.Lost == "" && m.contents.missing(e.Want.state()) {
				e.Lost = "the content is not kept"
			}
			of = append(of, e)
		}
		return nil
	})
	return title, of, err
}

// Then returns the state of each path at a moment, to restore the same tree on another machine. A
// path that existed only at other times is returned with an absent state. Paths that this history
// has never recorded are left out.
func (p Planner) Then(seq uint64) (out []Elsewhere, err error) {
	m := p.looker()
	err = p.Store.View(func(v *store.View) error {
		m.view = v
		return m.below("", true, seq, &out)
	})
	return out, err
}

// below adds the entries that a directory had at a moment, each with its subtree. It also adds
// paths that existed only at other times. existed tells whether the directory existed at that
// moment.
func (m *listing) below(dir store.Path, existed bool, seq uint64, out *[]Elsewhere) error {
	all := map[store.Path]Elsewhere{}
	err := m.view.Children(dir, func(c store.Path) bool {
		if !store.OwnFile(c) {
			all[c] = Elsewhere{Path: c}
		}
		return true
	})
	if err != nil {
		return err
	}
	var entries []Entry
	if existed {
		entries, _, err = m.list(dir, seq)
		if err != nil {
			return err
		}
	}
	for _, e := range entries {
		all[e.Path] = Elsewhere{Path: e.Path, Want: e.side(), Lost: e.Why}
	}
	for _, p := range slices.Sorted(maps.Keys(all)) {
		*out = append(*out, all[p])
		if err := m.below(p, all[p].Want.Mode&unix.S_IFMT == unix.S_IFDIR, seq, out); err != nil {
			return err
		}
	}
	return nil
}
