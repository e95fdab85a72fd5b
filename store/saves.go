package store

import (
	"path"
	"slices"
	"strings"
)

// saveTime bounds the duration of an atomic save, in ns.
const saveTime = int64(60e9)

// MadeFor distinguishes an atomic save from an ordinary rename. In an atomic save, as by sed -i and
// editors, the process that renames the file has just created it. MadeFor then returns the number
// of the file's first version. For an ordinary rename it returns 0.
func (s *Store) MadeFor(v Version) (uint64, error) {
	if v.Op != OpRename || v.Plan != "" || v.Actor.PID == 0 || !isRegular(v.Stat) {
		return 0, nil
	}
	first, made := uint64(0), false
	before := func(o Version) bool {
		if o.Op == OpMoved && o.Seq+1 == v.Seq {
			return true
		}
		if o.Deleted() || o.Actor.PID != v.Actor.PID || o.Actor.Start != v.Actor.Start || v.Time-o.Time > saveTime {
			return false
		}
		// A version before the creation may belong to the new file too: the overlay reports a chmod
		// through the descriptor before it reports the creation.
		first, made = o.Seq, made || o.Op == OpCreate
		return true
	}
	err := s.View(func(view *View) error {
		w := view.backwards(v.From, v.Seq)
		defer w.close()
		for {
			o, err := w.next()
			if err != nil || o.Seq == 0 || !before(o) {
				return err
			}
		}
	})
	if err != nil {
		return 0, err
	}
	if !made {
		return 0, nil
	}
	return first, nil
}

// DirMoves recognises the versions of paths that moved together with a directory. It receives the
// versions in order.
type DirMoves struct {
	dir  Path
	time int64
}

// Along reports whether v gives a path its new name because an earlier version renamed its
// directory.
func (d *DirMoves) Along(v *Version) bool {
	switch {
	case v.Op == OpMoved:
		return false
	case v.Op == OpRename && v.Time == d.time && d.dir != "" && v.Path.Inside(d.dir):
		return true
	}
	d.dir = ""
	if v.Op == OpRename && v.Stat.IsDir() {
		d.dir, d.time = v.Path, v.Time
	}
	return false
}

// OwnFile reports whether p is a temporary file of cachebro: a file that a plan renames into place,
// or the test file of `cachebro doctor`. A change of such a file must never count as the last
// action, or an undo after doctor would only remove the test file.
func OwnFile(p Path) bool {
	base := path.Base(string(p))
	return strings.HasPrefix(base, ".cachebro-") && strings.HasSuffix(base, "~")
}

// WithoutTemporary returns vs, the versions of one path in order, without the versions of temporary
// files that were created only to be renamed. Plans and atomic saves create such files (see
// MadeFor).
func WithoutTemporary(vs []Version) []Version {
	if len(vs) > 0 && OwnFile(vs[0].Path) {
		return nil
	}
	var out []Version
	life := 0 // the present file's first version is out[life]
	for _, v := range vs {
		out = append(out, v)
		if !v.Deleted() {
			continue
		}
		if v.Op == OpMoved && slices.ContainsFunc(out[life:], func(o Version) bool { return o.Op == OpCreate }) &&
			!slices.ContainsFunc(out[life:], func(o Version) bool {
				return o.Actor.PID != v.Actor.PID || o.Actor.Start != v.Actor.Start || v.Time-o.Time > saveTime
			}) {
			out = out[:life]
		}
		life = len(out)
	}
	return out
}
