package docsync

import (
	"slices"

	"cachebro/store"
)

// gitWrote calls s.together for each pair whose document or code a git process has written. at is
// the version of the process's last write.
func (s *Sync) gitWrote(at uint64) error {
	for k := range s.byGit {
		if err := s.together(k, at); err != nil {
			return err
		}
	}
	clear(s.byGit)
	return nil
}

// together moves the baseline of a pair if one git command has written both the document and all
// code that differs.
func (s *Sync) together(k key, at uint64) error {
	b := s.bases[k]
	doc, ok, err := s.store.AtSeq(k.doc, at)
	byGit := ok && doc.Actor.Comm == "git"
	if err != nil || b == nil || !byGit || doc.Seq <= b.Seq {
		return err
	}
	now, err := s.members(k, false, at)
	if err != nil {
		return nil // too many files; Check reports it
	}
	differ := differing(b.Members, now)
	for _, p := range differ {
		vs, err := s.store.History(p, false)
		if err != nil {
			return err
		}
		for _, v := range vs {
			if v.Seq > b.Seq && v.Seq <= at && (v.Actor.Comm != "git" || v.Actor.PID != doc.Actor.PID) {
				return nil
			}
		}
	}
	if len(differ) > 0 {
		s.put(k, &baseline{Seq: at, Time: doc.Time, By: "git", Members: now})
	}
	return nil
}

// differing returns the paths whose contents differ between two sets.
func differing(was, now map[store.Path]store.Hash) (out []store.Path) {
	for p, h := range was {
		if n, ok := now[p]; !ok || n != h {
			out = append(out, p)
		}
	}
	for p := range now {
		if _, ok := was[p]; !ok {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}
