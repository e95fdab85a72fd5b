package actions

import (
	"context"
	"slices"
	"time"

	"cachebro/store"
	"cachebro/store/daemon/last"
	"cachebro/store/daemon/lost"
	"cachebro/store/daemon/onwire"
	"cachebro/store/daemon/survey"
	"cachebro/store/processes"
	"cachebro/store/wire"
)

// countFor bounds the time in which lines are counted for one page.
const countFor = 150 * time.Millisecond

// Service answers for the log by action.
type Service struct {
	store  *store.Store
	book   processes.Book
	survey *survey.Survey
	paths  onwire.Paths
	lost   *lost.Service
}

// New makes the service.
func New(st *store.Store, sv *survey.Survey, paths onwire.Paths, ls *lost.Service) *Service {
	return &Service{store: st, book: processes.Open(st), survey: sv, paths: paths, lost: ls}
}

// Handlers is the one of its request.
func (s *Service) Handlers() map[string]wire.Handler {
	return map[string]wire.Handler{wire.MActions: onwire.Decoded(s.answer)}
}

func (s *Service) answer(ctx context.Context, q wire.ActionsQuery) (wire.Actions, []byte, error) {
	p, err := s.paths.Clean(q.Path)
	if err != nil {
		return wire.Actions{}, nil, err
	}
	f := store.Filter{Path: p, ToolCall: q.ToolCall, Since: q.Since, Until: q.Until, Oldest: q.Oldest, Match: match(q.Author)}
	if f.Ops, err = onwire.ParseOps(q.Ops); err != nil {
		return wire.Actions{}, nil, err
	}
	if f.Session, err = last.Session(s.store, q.Session); err != nil {
		return wire.Actions{}, nil, err
	}
	if f.Prompt, err = last.Prompt(s.store, "log", "", f.Session, q.Prompt); err != nil {
		return wire.Actions{}, nil, err
	}
	if q.Oldest {
		f.After = q.Seq
	} else {
		f.Before = q.Seq
	}
	if s.survey.Update(ctx, p); p == "" && q.Seq == 0 {
		s.survey.TryUpdateAll(ctx)
	}
	if _, only := s.lost.Marks(ctx); q.Lost {
		by := f.Match
		f.Match = func(v store.Version) bool { return only(v) && (by == nil || by(v)) }
	}
	a, err := s.Page(f, q)
	return a, nil, err
}

// Page is one page of the actions of the versions that a filter selects.
func (s *Service) Page(f store.Filter, q wire.ActionsQuery) (wire.Actions, error) {
	if q.Files <= 0 {
		q.Files = defaultFiles
	}
	out := wire.Actions{Actions: []wire.Action{}}
	marks, _ := s.lost.Marks(context.Background())
	err := s.store.View(func(v *store.View) error {
		w := s.newWords()
		groups, more, seq, skip, err := s.walk(w, v, f, q)
		if err != nil {
			return err
		}
		out.More, out.Seq, out.Skip = more, seq, skip
		count := lines{s: s.store, w: w, lost: marks}
		if q.Lines {
			count.end = time.Now().Add(countFor)
		}
		for _, g := range groups {
			x := g.span()
			a := wire.Action{Key: g.key, First: x.First, Last: x.Last, Versions: len(g.versions) + g.passed, Least: g.passed > 0, Files: []wire.ActionFile{}}
			if !q.Together {
				w.say(&a, g)
			}
			if !q.Oldest {
				slices.Reverse(g.versions)
			}
			a.Begin, a.End = g.versions[0].When(), g.versions[len(g.versions)-1].When()
			all, err := filesOf(v, g.versions, x.First, &a)
			if err != nil {
				return err
			}
			g.versions = nil
			count.list(&a, all, q)
			out.Actions = append(out.Actions, a)
		}
		return nil
	})
	if err != nil {
		return out, err
	}
	if !q.Lost && q.Author == "" && f.Session == "" && f.Prompt == "" && q.ToolCall == "" && len(q.Ops) == 0 && !q.Together {
		err = s.aside(&out, f, q)
	}
	return out, err
}

// aside adds the gaps and notices that fall between the actions of a page.
func (s *Service) aside(out *wire.Actions, f store.Filter, q wire.ActionsQuery) error {
	from, to := q.Since, q.Until
	if n := len(out.Actions); n > 0 {
		newest, oldest := out.Actions[0].End, out.Actions[n-1].Begin
		if q.Oldest {
			newest, oldest = out.Actions[n-1].End, out.Actions[0].Begin
		}
		if out.More && !q.Oldest || q.Seq > 0 && q.Oldest {
			from = oldest
		}
		if out.More && q.Oldest || q.Seq > 0 && !q.Oldest {
			to = newest
		}
	} else if q.Seq > 0 {
		return nil
	}
	within := func(t time.Time) bool {
		return (from.IsZero() || !t.Before(from)) && (to.IsZero() || !t.After(to))
	}
	gaps, _, err := s.store.Gaps(1000)
	if err != nil {
		return err
	}
	for _, g := range gaps {
		if within(onwire.Time(g.Time)) && g.Path.Inside(f.Path) {
			out.Gaps = append(out.Gaps, onwire.Gap(g))
		}
	}
	if f.Path != "" {
		return nil
	}
	notices, err := s.store.Notices(1000)
	for _, n := range notices {
		if within(onwire.Time(n.Time)) {
			out.Notices = append(out.Notices, wire.Notice{Time: onwire.Time(n.Time), Text: n.Text, Actor: onwire.Actor(n.Actor)})
		}
	}
	return err
}
