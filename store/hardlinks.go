package store

import (
	"slices"

	badger "github.com/dgraph-io/badger/v4"
)

// Hard links: one file under several names. What a plan does to such a file in
// place it does to all its names, so either all of them go the same way, or the
// one that differs gets a file of its own, or it is left alone.

// namesOf lists the live paths, other than but, that are names of the same
// file as far as is known.
func (s *Store) namesOf(st state, but Path) ([]Path, error) {
	if st.nlink < 2 || st.in.ino == 0 || !st.regular() {
		return nil, nil
	}
	var all []Path
	err := s.view(func(txn *badger.Txn) error {
		prefix := keyLinkPrefix(Stat{Dev: st.in.dev, Ino: st.in.ino, Birth: st.in.birth})
		it := txn.NewIterator(badger.IteratorOptions{Prefix: prefix})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			all = append(all, Path(it.Item().KeyCopy(nil)[len(prefix):]))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var out []Path
	for _, p := range all {
		v, found, err := s.Current(p)
		if err != nil {
			return nil, err
		}
		if p != but && found && !v.Deleted() && inodeOf(v.Stat) == st.in {
			out = append(out, p)
		}
	}
	return out, nil
}

// fate is what becomes of a file with several names when one of them changes.
type fate struct {
	with   []Path // names that go the same way
	others []Path // names that keep the file as it is
	// inPlace: the change that is taken back was made to the file, not by
	// putting another one in its place.
	inPlace bool
}

// fateOf decides for a goal that changes content or mode. All goals are given:
// by path, and by the file that is there now.
func (s *Store) fateOf(byPath map[Path]*goal, byFile map[inode][]*goal, g *goal) (fate, error) {
	var f fate
	if !g.have.regular() || !g.want.regular() || g.have.nlink < 2 || g.want.equal(g.have) {
		return f, nil
	}
	f.inPlace = g.want.in == g.have.in
	for _, o := range byFile[g.have.in] {
		switch {
		case o == g || !o.want.regular(): // a name that goes away is no concern
		case o.want.equal(g.want) && o.want.in == g.want.in:
			f.with = append(f.with, o.path)
		case !f.inPlace || o.want.in == o.have.in:
			f.others = append(f.others, o.path)
		}
	}
	names, err := s.namesOf(g.have, g.path)
	for _, p := range names {
		if byPath[p] == nil {
			f.others = append(f.others, p)
		}
	}
	return f, err
}

func filesOf(goals []*goal) map[inode][]*goal {
	m := map[inode][]*goal{}
	for _, g := range goals {
		if g.have.regular() && g.have.nlink > 1 {
			m[g.have.in] = append(m[g.have.in], g)
		}
	}
	return m
}

// alsoNamed adds to a selection that was narrowed by paths what the same writes
// did to other names of the selected files. vs are the versions before that.
func alsoNamed(sel selection, vs []Version) {
	files := map[inode]bool{}
	for _, v := range vs {
		if v.Stat.Nlink > 1 && sel[v.Path][v.Seq] != nil {
			files[inodeOf(v.Stat)] = true
		}
	}
	for i := range vs {
		v := &vs[i]
		if files[inodeOf(v.Stat)] && v.Plan == "" && slices.Contains([]Op{OpWrite, OpTruncate, OpChmod}, v.Op) {
			sel.add(v)
		}
	}
}

// follow adds the goals of a file's other names to those of a plan that was
// asked for by path, where they were names of the file that is wanted at the
// moment seq (0: ever). A file that has another name since is parted from it.
func (s *Store) follow(goals []goal, seq uint64) ([]goal, error) {
	byPath := map[Path]bool{}
	for _, g := range goals {
		byPath[g.path] = true
	}
	for _, g := range goals {
		if g.want.equal(g.have) || g.want.in != g.have.in {
			continue
		}
		names, err := s.namesOf(g.have, g.path)
		if err != nil {
			return nil, err
		}
		for _, p := range names {
			if byPath[p] {
				continue
			}
			cur, _, err := s.Current(p)
			if err != nil {
				return nil, err
			}
			own, err := s.History(p, false)
			if err != nil {
				return nil, err
			}
			for _, v := range slices.Backward(own) {
				if seq > 0 && v.Seq > seq {
					continue
				}
				if want := stateOf(v); want.in == g.want.in && want.equal(g.want) {
					goals, byPath[p] = append(goals, goal{path: p, have: stateOf(cur), want: want}), true
					break
				}
				if seq > 0 {
					break
				}
			}
		}
	}
	return goals, nil
}
