package versions

import (
	"time"

	"cachebro/store"
	"cachebro/store/onwire"
	"cachebro/store/wire"
)

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
