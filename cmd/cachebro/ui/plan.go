package ui

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"cachebro/cmd/cachebro/history"
	"cachebro/store/leaf/text"
	"cachebro/store/undo/apply"
	"cachebro/store/wire"
)

// shownSteps is how many steps of a plan are listed.
const shownSteps = 300

// planPart is a plan as it is shown before anything is done.
type planPart struct {
	Title, Verb, Sum string
	Added, Removed   int
	Partly           bool
	Steps            []stepRow
	More             int
	Conflicts, Lost  []string
	Asked            string // the query, to be asked again: a form could not hold all names
	Digest           string
	Nothing          bool
	Note             string
	Merge, Force     template.URL // the same plan with the choice, "" where it makes no difference
	Chosen           string
}

type stepRow struct {
	Letter, Name   string
	Added, Removed int
	Note           string
}

// planFields are what a request for a plan may hold.
var planFields = []string{"kind", "action", "prompt", "session", "path", "plan", "seq", "at", "before", "after", "edits", "merge", "force"}

// verbs of the kinds of plans that pages ask for.
var verbs = map[string]string{"undo": "take back", "redo": "bring back", "revert": "write this version", "restore": "restore"}

// request reads what plan is meant.
func request(q url.Values) (wire.PlanRequest, error) {
	r := wire.PlanRequest{Kind: q.Get("kind"), Action: number(q, "action"), Prompt: q.Get("prompt"), Session: q.Get("session"), Plan: q.Get("plan"),
		Merge: q.Get("merge") == "1", Force: q.Get("force") == "1"}
	path := q.Get("path")
	switch r.Kind {
	case "undo":
		if path != "" {
			r.Paths = [][]byte{[]byte(literal(path))}
		}
		if list := q.Get("edits"); list != "" {
			f := wire.FileEdits{Before: number(q, "before"), After: number(q, "after")}
			for _, n := range strings.Split(list, ",") {
				i, err := strconv.Atoi(n)
				if err != nil {
					return r, wire.Errorf(wire.ErrBadRequest, "", "edits are numbers")
				}
				f.Which = append(f.Which, i)
			}
			r.Edits = []wire.FileEdits{f}
		}
	case "redo":
		if r.Plan == "" {
			return r, wire.Errorf(wire.ErrBadRequest, "", "which plan is to be brought back is not said")
		}
	case "revert":
		r.Path, r.Version = []byte(path), wire.ShowQuery{Seq: number(q, "seq")}
	case "restore":
		r.At = wire.ShowQuery{Seq: number(q, "at")}
		if path == "" || r.At.Seq == 0 {
			return r, wire.Errorf(wire.ErrBadRequest, "", "what is to be restored is not said")
		}
		r.Paths = [][]byte{[]byte(path)}
	default:
		return r, wire.Errorf(wire.ErrBadRequest, "", "there is no plan of this kind")
	}
	return r, nil
}

// literal is a glob for one path.
func literal(path string) string {
	if !strings.ContainsAny(path, `*?[{\`) {
		return path
	}
	var b strings.Builder
	if !strings.Contains(path, "/") {
		b.WriteByte('/') // a glob without one is for names at any depth
	}
	for _, c := range []byte(path) {
		if strings.IndexByte(`*?[]{}\,`, c) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}

// plan shows what would be done.
func (s *server) plan(ctx context.Context, q url.Values) (any, error) {
	r, err := request(q)
	if err != nil {
		return nil, err
	}
	r.DryRun = true
	apply.Settle(s.target().Base())
	p, err := wire.Call[wire.Plan](ctx, s.c, wire.MPlan, r)
	if err != nil {
		return nil, err
	}
	digest := digestOf(p)
	if err := apply.Preview(s.target().Base(), &p, r.Force); err != nil {
		return nil, err
	}
	return s.planPart(p, q, digest), nil
}

func (s *server) planPart(p wire.Plan, q url.Values, digest string) planPart {
	out := planPart{Title: oneLine(p.Title), Verb: verbs[q.Get("kind")], Digest: digest, Nothing: len(p.Steps) == 0, Partly: p.Partly}
	for i, st := range p.Steps {
		out.Added, out.Removed = out.Added+st.Added, out.Removed+st.Removed
		if i >= shownSteps {
			out.More++
			continue
		}
		row := stepRow{Letter: history.StepLetter(st), Name: name(st.Path), Added: st.Added, Removed: st.Removed}
		if len(st.To) > 0 {
			row.Name += " → " + name(st.To)
		}
		if st.Do == "chmod" {
			row.Note = fmt.Sprintf("mode %04o", st.Mode&0o7777)
		}
		out.Steps = append(out.Steps, row)
	}
	out.Sum = text.Count(apply.Files(p), "file")
	for _, x := range p.Conflicts {
		out.Conflicts = append(out.Conflicts, name(x.Path)+": "+history.ConflictText(x, s.e))
	}
	for _, x := range p.Lost {
		out.Lost = append(out.Lost, name(x.Path)+": "+oneLine(x.Why))
	}
	asked := url.Values{}
	for _, f := range planFields {
		if v := q.Get(f); v != "" {
			asked.Set(f, v)
		}
	}
	out.Asked = asked.Encode()
	if q.Get("edits") != "" {
		return out // lines of others are kept anyway, and nothing is to be forced
	}
	if kind := q.Get("kind"); kind == "undo" && q.Get("merge") == "" && len(p.Conflicts) > 0 {
		out.Merge = template.URL("plan?" + with(asked, "merge", "1").Encode())
	}
	if kind := q.Get("kind"); (kind == "undo" || kind == "redo") && q.Get("force") == "" && len(p.Conflicts) > 0 {
		out.Force = template.URL("plan?" + with(asked, "force", "1").Encode())
	}
	if q.Get("force") == "1" {
		out.Chosen = "what others changed since is overwritten"
	} else if q.Get("merge") == "1" {
		out.Chosen = "what others changed since is kept where the lines do not meet"
	}
	return out
}

// with is a copy with one value more.
func with(v url.Values, name, value string) url.Values {
	out := url.Values{name: {value}}
	for k, x := range v {
		if k != name {
			out[k] = x
		}
	}
	return out
}

// digestOf tells two plans apart: a person agrees to the one that was shown.
func digestOf(p wire.Plan) string {
	h := sha256.New()
	for _, s := range p.Steps {
		fmt.Fprintf(h, "%s %q %q %q %s %s %d %d\n", s.Do, s.Path, s.To, s.Target, s.Hash, s.Expect, s.Mode, s.ExpMode)
	}
	for _, c := range append(p.Conflicts, p.Lost...) {
		fmt.Fprintf(h, "%q\n", c.Path)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// donePart is what came of a plan.
type donePart struct {
	Text  string
	Left  []string // what was not done, or not quite
	Notes string
	Redo  template.URL
}

// apply carries out the plan that was shown, if it still is the same.
func (s *server) apply(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		s.fail(w, r, err)
		return
	}
	q, err := url.ParseQuery(r.PostForm.Get("asked"))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	v, page, err := s.carryOut(r.Context(), q, r.PostForm.Get("digest"))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.render(w, r, page, v)
}

func (s *server) carryOut(ctx context.Context, q url.Values, digest string) (v any, page string, err error) {
	r, err := request(q)
	if err != nil {
		return nil, "", err
	}
	s.takes.Lock()
	defer s.takes.Unlock()
	ctx = context.WithoutCancel(ctx) // who closes the page has agreed all the same
	if err := s.gone(); err != nil {
		return nil, "", err
	}
	t := s.target()
	var notes bytes.Buffer
	e := *s.e
	e.Stdout, e.Stderr = io.Discard, &notes
	left, err := history.ResumeOpen(ctx, &e, t, s.c)
	if err != nil {
		return nil, "", err
	}
	apply.Settle(t.Base())
	p, err := wire.Call[wire.Plan](ctx, s.c, wire.MPlan, r)
	if err != nil {
		return nil, "", err
	}
	if digestOf(p) != digest {
		s.drop(ctx, p)
		shown := p
		if err := apply.Preview(t.Base(), &shown, r.Force); err != nil {
			return nil, "", err
		}
		part := s.planPart(shown, q, digestOf(p))
		part.Note = "Something changed meanwhile. Nothing was done yet: this is what would be done now."
		return part, "plan", nil
	}
	if len(p.Steps) == 0 {
		return donePart{Text: "nothing to do"}, "done", nil
	}
	res, err := history.Apply(ctx, &e, t, s.c, p, r.Force)
	if err != nil && len(res.Done) == 0 {
		return nil, "", err
	}
	out := donePart{Notes: oneLine(notes.String())}
	out.Text = "done: " + text.Count(history.FilesOf(p, res.Done), "file")
	if err != nil {
		out.Text = fmt.Sprintf("stopped: %d of %s done: %s", len(res.Done), text.Count(len(p.Steps), "change"), oneLine(err.Error()))
	}
	for _, x := range p.Conflicts {
		out.Left = append(out.Left, name(x.Path)+": "+history.ConflictText(x, s.e))
	}
	for _, list := range [][]wire.Conflict{p.Lost, res.Failed, res.Left} {
		for _, x := range list {
			out.Left = append(out.Left, name(x.Path)+": "+oneLine(x.Why))
		}
	}
	if left > 0 && out.Notes == "" {
		out.Notes = "something of an earlier plan was left alone"
	}
	if len(res.Done) > 0 {
		_ = s.seen.set(map[string]uint64{ownPlan(p.ID): 1}) // without, it is shown as new
		out.Redo, _ = link("plan", "kind", "redo", "plan", p.ID)
	}
	return out, "done", nil
}

// drop ends a plan of which nothing was done.
func (s *server) drop(ctx context.Context, p wire.Plan) {
	if len(p.Steps) > 0 {
		_, _ = s.c.Call(ctx, wire.MPlanDone, wire.PlanDone{ID: p.ID, Finished: true}, nil, nil)
	}
}

// takeOf is the plan that takes back an action, or brings back what it took away, and
// what it does in a word.
func takeOf(a wire.Action) (u template.URL, verb string) {
	switch {
	case a.Back:
		return bringBack(a.TakenBack)
	case a.Plan != "":
		u, _ = link("plan", "kind", "redo", "plan", a.Plan)
		if strings.HasPrefix(a.Plan, "redo") {
			return u, "take back"
		}
		return u, "bring back"
	}
	u, _ = link("plan", "kind", "undo", "action", a.Last)
	return u, "take back"
}

// wholly reports whether nothing is left of a change.
func wholly(by []wire.TakenBack) bool {
	return len(by) > 0 && by[len(by)-1].Whole()
}

// bringBack is the plan that brings back what one other plan took back. Where several
// took a part each, there is none.
func bringBack(by []wire.TakenBack) (u template.URL, verb string) {
	if len(by) != 1 {
		return "", ""
	}
	u, _ = link("plan", "kind", "redo", "plan", by[0].Plan)
	return u, "bring back"
}

// takePrompt is the plan that takes back all of a prompt.
func takePrompt(a wire.Actor) template.URL {
	u, _ := link("plan", "kind", "undo", "prompt", a.Prompt, "session", a.Session)
	return u
}
