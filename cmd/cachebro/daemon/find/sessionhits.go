package find

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"cachebro/search"
	"cachebro/store"
	"cachebro/store/leaf/ignore"
	"cachebro/store/onwire"
	"cachebro/store/wire"
)

// Bounds on how many sessions and files are examined for a prompt, and how many are shown.
const (
	sessionsExamined = 10
	sessionsFiles    = 5
	sessionsShown    = 2
)

// addSessions adds, below the best files, earlier sessions that edited these files. Such a session
// may have worked on the subject of the prompt.
func (f *Finder) addSessions(asking string, limit int, a *wire.SearchAnswer) error {
	sessions, err := f.Store.Sessions.List(sessionsExamined)
	if err != nil {
		return err
	}
	best := map[store.Path]bool{}
	for _, h := range a.Hits[:min(len(a.Hits), sessionsFiles)] {
		best[store.Path(h.Path)] = true
	}
	var hits []wire.SearchHit
	for _, s := range sessions {
		if string(s.ID) == asking {
			continue
		}
		touched, err := f.Sets.Of(s.ID)
		if err != nil {
			return err
		}
		var edited []string
		for _, t := range touched {
			if t.Edits > 0 && best[t.Path] {
				edited = append(edited, path.Base(onwire.Display(t.Path)))
			}
		}
		if len(edited) > 0 {
			hits = append(hits, wire.SearchHit{ID: search.SessionID(s.ID), Type: "session", Title: "edited " + strings.Join(edited, ", "), Time: onwire.Time(s.Last),
				Score: float64(len(edited)) / float64(len(best))})
		}
	}
	slices.SortStableFunc(hits, func(x, y wire.SearchHit) int { return cmp.Compare(y.Score, x.Score) })
	hits = hits[:min(len(hits), sessionsShown)]
	a.Hits = slices.Insert(a.Hits, min(len(a.Hits), sessionsFiles), hits...)
	a.Hits = a.Hits[:min(len(a.Hits), limit)]
	a.Lines += len(hits)
	return nil
}

// sessionText describes the session with an id: its client, the times and ids of its prompts, and
// the files that it edited.
func (f *Finder) sessionText(id string) (hit wire.SearchHit, ok bool) {
	sessions, err := f.Store.Sessions.List(0)
	if err != nil {
		return hit, false
	}
	i := slices.IndexFunc(sessions, func(s store.Session) bool { return search.SessionID(s.ID) == id })
	if i < 0 {
		return hit, false
	}
	s := sessions[i]
	var b strings.Builder
	const clock = "2006-01-02 15:04"
	fmt.Fprintf(&b, "session %s %s, %s to %s\n", s.Client, s.ID, onwire.Time(s.Started).Local().Format(clock), onwire.Time(s.Last).Local().Format(clock))
	prompts, err := f.Store.Sessions.Prompts(s.ID)
	if err != nil {
		return hit, false
	}
	for _, p := range prompts {
		fmt.Fprintf(&b, "%s  prompt %s\n", onwire.Time(p.Time).Local().Format(clock), p.ID)
	}
	touched, err := f.Sets.Of(s.ID)
	if err != nil {
		return hit, false
	}
	for _, t := range touched {
		if t.Edits > 0 && !ignore.Secret(string(t.Path)) {
			fmt.Fprintf(&b, "M %s (%d edits)\n", onwire.Display(t.Path), t.Edits)
		}
	}
	lines := strings.SplitAfter(b.String(), "\n")
	body := strings.Join(lines[:min(len(lines), maxBody)], "")
	return wire.SearchHit{ID: id, Type: "session", Title: "session " + string(s.ID), Time: onwire.Time(s.Last), Score: 1, Line: 1, Last: strings.Count(body, "\n"), Body: body}, true
}
