package actions

import (
	"context"
	"slices"
	"time"

	"cachebro/cmd/cachebro/daemon/attribution"
	"cachebro/cmd/cachebro/daemon/lost"
	"cachebro/cmd/cachebro/daemon/survey"
	"cachebro/cmd/cachebro/daemon/versions"
	"cachebro/store"
	"cachebro/store/leaf/cache"
	"cachebro/store/onwire"
	"cachebro/store/wire"
)

// countFor bounds the time for reading a page and counting its lines. Counting gets at least a
// third of that time.
const countFor = 150 * time.Millisecond

// Service answers requests for the log by action.
type Service struct {
	store  *store.Store
	book   attribution.ProcessBook
	survey *survey.Survey
	paths  onwire.Paths
	lost   *lost.Service
	marks  *cache.Cache[string, planMarks] // by plan
	git    func(ctx context.Context, from, to time.Time) ([]wire.GitOp, error)
}

// SetGitOps sets the function that returns the operations on git's own files, which no version
// records.
func (s *Service) SetGitOps(git func(ctx context.Context, from, to time.Time) ([]wire.GitOp, error)) {
	s.git = git
}

// New makes the service.
func New(st *store.Store, sv *survey.Survey, paths onwire.Paths, ls *lost.Service) *Service {
	return &Service{store: st, book: attribution.OpenProcesses(st), survey: sv, paths: paths, lost: ls, marks: newMarks()}
}

// Handlers returns the handlers of the service's requests, by method.
func (s *Service) Handlers() map[string]wire.Handler {
	return map[string]wire.Handler{wire.MActions: onwire.Decoded(s.answer), wire.MTakenBack: onwire.Decoded(s.takenBackOf)}
}

func (s *Service) answer(ctx context.Context, q wire.ActionsQuery) (wire.Actions, []byte, error) {
	p, err := s.paths.Clean(q.Path)
	if err != nil {
		return wire.Actions{}, nil, err
	}
	f := store.Filter{Path: p, ToolCall: q.ToolCall, Since: q.Since, Until: q.Until, Oldest: q.Oldest, Match: match(q.Author)}
	f.Ops, err = onwire.ParseOps(q.Ops)
	if err != nil {
		return wire.Actions{}, nil, err
	}
	f.Session, err = versions.Session(s.store, q.Session)
	if err != nil {
		return wire.Actions{}, nil, err
	}
	f.Prompt, err = versions.Prompt(s.store, "log", "", f.Session, q.Prompt)
	if err != nil {
		return wire.Actions{}, nil, err
	}
	if q.Oldest {
		f.After = q.Seq
	} else {
		f.Before = q.Seq
	}
	behind := s.survey.UpdateSoon(ctx, p)
	if p == "" && q.Seq == 0 {
		s.survey.TryUpdateAll(ctx)
	}
	if _, only := s.lost.Marks(ctx); q.Lost {
		by := f.Match
		f.Match = func(v store.Version) bool { return only(v) && (by == nil || by(v)) }
	}
	a, err := s.Page(f, q)
	a.Behind = behind
	if err == nil && s.git != nil && p == "" && len(q.Ops) == 0 {
		err = s.gitOps(ctx, &a, f, q)
	}
	return a, nil, err
}

// gitOps adds each operation on git's own files to the action that did it, or places it between the
// actions of the page.
func (s *Service) gitOps(ctx context.Context, out *wire.Actions, f store.Filter, q wire.ActionsQuery) error {
	from, to, ok := during(out, q)
	if !ok {
		return nil
	}
	ops, err := s.git(ctx, from, to)
	if err != nil {
		return err
	}
	for _, o := range ops {
		a := o.Actor
		v := store.Version{Actor: store.Actor{PID: a.PID, Comm: a.Comm, Agent: a.Agent, Tool: a.Tool, Session: store.SessionID(a.Session)}}
		switch {
		case f.Session != "" && a.Session != string(f.Session), f.Prompt != "" && a.Prompt != f.Prompt:
			continue
		case q.ToolCall != "" && a.ToolCall != q.ToolCall, f.Match != nil && !f.Match(v):
			continue
		}
		i := slices.IndexFunc(out.Actions, func(x wire.Action) bool {
			return x.Key == o.Key && !o.Begin.After(x.End.Add(time.Duration(silence))) && !o.End.Before(x.Begin.Add(-time.Duration(silence)))
		})
		if i >= 0 {
			out.Actions[i].Git = append(out.Actions[i].Git, o)
		} else if !q.Together {
			out.Git = append(out.Git, o)
		}
	}
	return nil
}

// during returns the period that a page covers. ok is false if the page covers none.
func during(out *wire.Actions, q wire.ActionsQuery) (from, to time.Time, ok bool) {
	from, to = q.Since, q.Until
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
		return from, to, true
	}
	return from, to, q.Seq == 0
}

// Page returns one page of actions, made from the versions that a filter selects.
func (s *Service) Page(f store.Filter, q wire.ActionsQuery) (wire.Actions, error) {
	if q.Files <= 0 {
		q.Files = defaultFiles
	}
	began, out := time.Now(), wire.Actions{Actions: []wire.Action{}}
	marks, _ := s.lost.Marks(context.Background())
	err := s.store.View(func(v *store.View) error {
		w := s.newDescriber()
		found, err := s.walk(w, v, f, q)
		if err != nil {
			return err
		}
		out.More, out.Seq, out.Skip = found.more, found.seq, found.skip
		back, err := s.newTakenBack(v)
		if err != nil {
			return err
		}
		count := lineCounter{s: s.store, w: w, lost: marks, undone: back}
		if q.Lines {
			count.end = began.Add(countFor)
			if time.Until(count.end) < countFor/3 {
				count.end = time.Now().Add(countFor / 3)
			}
		}
		for _, g := range found.groups {
			x := g.span()
			a := wire.Action{Key: g.key, First: x.First, Last: x.Last, Versions: len(g.versions) + g.passed, Least: g.passed > 0, Files: []wire.ActionFile{}}
			if !q.Together {
				w.describe(&a, g)
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
			if err := count.list(&a, all, q); err != nil {
				return err
			}
			out.Actions = append(out.Actions, a)
		}
		return nil
	})
	if err != nil {
		return out, err
	}
	narrowed := q.Lost || q.Together || q.Author != "" || len(q.Ops) > 0
	ofOne := f.Session != "" || f.Prompt != "" || q.ToolCall != ""
	if !narrowed && !ofOne {
		err = s.addGapsAndNotices(&out, f, q)
	}
	return out, err
}

// addGapsAndNotices adds the gaps and notices that fall between the actions of a page.
func (s *Service) addGapsAndNotices(out *wire.Actions, f store.Filter, q wire.ActionsQuery) error {
	from, to, ok := during(out, q)
	if !ok {
		return nil
	}
	gaps, notices, err := versions.GapsAndNotices(s.store, f.Path, from, to)
	out.Gaps, out.Notices = gaps, notices
	return err
}
