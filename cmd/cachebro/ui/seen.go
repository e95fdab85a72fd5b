package ui

import (
	"context"
	"html/template"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"sync"

	"cachebro/cmd/cachebro/history"
	"cachebro/store/leaf/text"
	"cachebro/store/wire"
)

// seenMarks stores the newest version of each session that the user has marked as seen. The key ""
// is for changes outside sessions. Only the pages use the file; the history works without it.
type seenMarks struct {
	mu   sync.Mutex // orders the writers of the file
	file string
}

func seenFile(state string) string { return filepath.Join(state, "ui-seen.json") }

func (m *seenMarks) read() map[string]uint64 {
	marks := map[string]uint64{}
	_ = wire.ReadJSON(m.file, &marks) // without the file, or if it is broken, nothing counts as seen
	return marks
}

// set marks sessions as seen. A mark never moves back.
func (m *seenMarks) set(more map[string]uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	marks := m.read()
	for k, n := range more {
		marks[k] = max(marks[k], n)
	}
	return wire.WriteJSON(m.file, marks)
}

// ownPlan returns the key of the mark of a plan that was carried out from a page.
func ownPlan(id string) string { return "plan " + id }

// isSeen reports whether an action is not new to the user. Either the user has marked it as seen, or
// it is an undo, redo or restore that the user requested on a page or in a shell.
func isSeen(a wire.Action, marks map[string]uint64) bool {
	if a.Plan != "" && (marks[ownPlan(a.Plan)] > 0 || a.Actor.Session == "" && a.Actor.UID == uid) {
		return true
	}
	return a.Last <= marks[a.Actor.Session]
}

// sincePart lists unseen actions, by session.
type sincePart struct {
	Sessions []sinceRow
	All      string // the marks of all sessions
}

type sinceRow struct {
	Name, Sum string
	To        template.URL
	Mark      string
}

func (s *server) since(ctx context.Context, _ url.Values) (any, error) {
	a, err := s.recent(ctx)
	if err != nil {
		return nil, err
	}
	return unseen(a, s.seen.read()), nil
}

// unseen sums up the unseen actions of each session.
func unseen(a wire.Actions, marks map[string]uint64) sincePart {
	type sum struct {
		name    string
		last    uint64
		actions int
		files   history.Touched
	}
	sums := map[string]*sum{}
	var order []string
	oldest := ^uint64(0)
	for _, x := range a.Actions {
		id := x.Actor.Session
		oldest = min(oldest, x.Last)
		if x.NoEffect() || isSeen(x, marks) {
			continue
		}
		n := sums[id]
		if n == nil {
			n = &sum{name: nameOfSession(x.Actor.Session, x.Client, x.Began), last: x.Last}
			sums[id], order = n, append(order, id)
		}
		n.actions++
		n.files.Add(x)
	}
	var out sincePart
	all := url.Values{}
	for _, id := range order {
		n := sums[id]
		mark := url.Values{"s": {id}, "n": {strconv.FormatUint(n.last, 10)}}
		all.Add("s", id)
		all.Add("n", mark.Get("n"))
		row := sinceRow{Name: n.name, Sum: text.Count(n.actions, "action") + ", " + n.files.String(), Mark: "seen?" + mark.Encode(), To: "./"}
		if a.More && oldest > marks[id]+1 {
			row.Sum = "at least " + row.Sum
		}
		if id != "" {
			row.To = link("./", "session", id)
		}
		out.Sessions = append(out.Sessions, row)
	}
	if len(order) > 1 {
		out.All = "seen?" + all.Encode()
	}
	return out
}

// mark marks sessions as seen and shows the sessions that still have unseen actions.
func (s *server) mark(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	sessions, numbers := q["s"], q["n"]
	marks := map[string]uint64{}
	for i, id := range sessions[:min(len(sessions), len(numbers))] {
		marks[id], _ = strconv.ParseUint(numbers[i], 10, 64)
	}
	if err := s.seen.set(marks); err != nil {
		s.fail(w, r, err)
		return
	}
	s.part("since", s.since)(w, r)
}
