// Package versions resolves the version, session or prompt that a request names. It also compares
// two versions.
//
// The "last" session or prompt is the newest one that changed something. The newest of all may
// belong to a wrapper around the client, or may have only read. The beginning of a name is accepted
// too, because the log shows only beginnings.
package versions

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"cachebro/store"
	"cachebro/store/leaf/text"
	"cachebro/store/onwire"
	"cachebro/store/wire"
)

// Given reports whether a query names a version.
func Given(q wire.ShowQuery) bool { return q.Seq != 0 || q.Number != 0 || !q.At.IsZero() }

// Find resolves a ShowQuery. For a number of the log, it returns the path's newest version up to
// that number. n is the version's number in the history of its path, or 0 if that history was not
// read.
func Find(st *store.Store, p store.Path, q wire.ShowQuery) (v store.Version, n int, err error) {
	if q.Seq > 0 {
		v, err = st.Version(q.Seq)
		if errors.Is(err, store.ErrNotFound) {
			return v, 0, noVersion(q.Seq)
		}
		if err == nil && p != "" && v.Path != p && v.From != p {
			hist, err := st.History(p, true)
			if err != nil {
				return v, 0, err
			}
			i := slices.IndexFunc(hist, func(h store.Version) bool { return h.Seq > q.Seq })
			if i < 0 {
				i = len(hist)
			}
			if i == 0 {
				return v, 0, wire.Errorf(wire.ErrNotFound, "cachebro log "+onwire.ShellName(p), "%s was not recorded yet at %d", onwire.Display(p), q.Seq)
			}
			return hist[i-1], i, nil
		}
		return v, 0, err
	}
	if p == "" {
		return v, 0, wire.Errorf(wire.ErrBadRequest, "name a file, or a number that log shows", "no path and no version was given")
	}
	hist, err := st.History(p, true)
	if err != nil {
		return v, 0, err
	}
	if len(hist) == 0 {
		if isDir, _ := KnownDir(st, p); isDir {
			return v, 0, wire.Errorf(wire.ErrIsDir, "name a file in it; cachebro log "+onwire.ShellName(p)+" lists its versions", "%s is a directory", onwire.Display(p))
		}
		return v, 0, wire.Errorf(wire.ErrNotFound, "cachebro status shows how far the first scan is", "no version of %s is known", onwire.Display(p))
	}
	switch {
	case !q.At.IsZero():
		seq, err := st.SeqAt(q.At)
		if err != nil {
			return v, 0, err
		}
		for i := len(hist) - 1; i >= 0; i-- {
			if hist[i].Seq <= seq {
				return hist[i], i + 1, nil
			}
		}
		return v, 0, wire.Errorf(wire.ErrNotFound, "cachebro log "+onwire.ShellName(p), "%s was not recorded yet at %s", onwire.Display(p), q.At.Format(time.DateTime))
	case q.Number > 0 && q.Number <= len(hist):
		return hist[q.Number-1], q.Number, nil
	case q.Number < 0 && -q.Number < len(hist):
		n := len(hist) + q.Number
		return hist[n-1], n, nil
	case q.Number != 0:
		return v, 0, wire.Errorf(wire.ErrNotFound, "cachebro log "+onwire.ShellName(p), "%s has %s, not @%d", onwire.Display(p), text.Count(len(hist), "version"), q.Number)
	}
	return hist[len(hist)-1], len(hist), nil
}

// Moment returns the position in the log for a version number.
func Moment(st *store.Store, seq uint64) (moment uint64, err error) {
	if seq > st.Seq() {
		return 0, noVersion(seq)
	}
	err = st.View(func(v *store.View) (err error) { moment, err = v.EndOfOperation(seq); return })
	return moment, err
}

func noVersion(seq uint64) error {
	return wire.Errorf(wire.ErrNotFound, "cachebro log shows the numbers", "there is no version %d", seq)
}

// KnownDir reports whether p is a directory that is live in the log, or has live paths in its
// subtree.
func KnownDir(st *store.Store, p store.Path) (bool, error) {
	found := errors.New("found")
	err := st.Live(p, func(v store.Version) error {
		if v.Path != p || v.Stat.IsDir() {
			return found
		}
		return nil
	})
	if errors.Is(err, found) {
		return true, nil
	}
	return false, err
}

// Content returns what show prints: the bytes, or the target of a symbolic link.
func Content(st *store.Store, v store.Version) ([]byte, error) {
	switch {
	case v.Stat.IsLink():
		return []byte(v.Target), nil
	case v.Stat.IsDir():
		return nil, wire.Errorf(wire.ErrIsDir, "name a file in it", "%s was a directory in this version", onwire.Display(v.Path))
	case v.Blob == (store.Hash{}) && v.Deleted():
		return nil, wire.Errorf(wire.ErrNotFound, fmt.Sprintf("cachebro show '%s@-1'", onwire.Display(v.Path)), "%s was deleted in version %d", onwire.Display(v.Path), v.Seq)
	case v.Blob == (store.Hash{}):
		why := cmp.Or(v.NoContent, "it was not captured")
		return nil, wire.Errorf(wire.ErrPruned, "cachebro log "+onwire.ShellName(v.Path)+" shows which versions have content", "version %d of %s has no content: %s", v.Seq, onwire.Display(v.Path), why)
	}
	b, err := st.Content(v.Blob)
	if err != nil {
		return nil, fmt.Errorf("version %d of %s: %w", v.Seq, onwire.Display(v.Path), onwire.Error(err))
	}
	return b, nil
}

// GapsAndNotices returns the gaps in a directory's subtree between two times. For the whole project
// it also returns the notices. A zero time means no bound.
func GapsAndNotices(st *store.Store, dir store.Path, from, to time.Time) (gaps []wire.Gap, notices []wire.Notice, err error) {
	within := func(t time.Time) bool {
		return (from.IsZero() || !t.Before(from)) && (to.IsZero() || !t.After(to))
	}
	all, _, err := st.Notes.Gaps(1000)
	if err != nil {
		return nil, nil, err
	}
	for _, g := range all {
		if within(onwire.Time(g.Time)) && g.Path.Inside(dir) {
			gaps = append(gaps, onwire.Gap(g))
		}
	}
	if dir != "" {
		return gaps, nil, nil
	}
	recorded, err := st.Notes.Notices(1000)
	for _, n := range recorded {
		if within(onwire.Time(n.Time)) {
			notices = append(notices, wire.Notice{Time: onwire.Time(n.Time), Text: n.Text, Actor: onwire.Actor(n.Actor)})
		}
	}
	return gaps, notices, err
}
