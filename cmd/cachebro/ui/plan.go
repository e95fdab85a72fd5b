package ui

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"cachebro/cmd/cachebro/history"
	"cachebro/store/diff"
	"cachebro/store/leaf/text"
	"cachebro/store/undo/apply"
	"cachebro/store/wire"
)

const shownSteps = 300

// planPart is a plan as the page shows it before anything is done.
type planPart struct {
	Title, Verb, Sum string
	Added, Removed   int
	Partly           bool
	Steps            []stepRow
	More             int
	Conflicts, Lost  []string
	Asked            string // the query of the request, because form fields cannot contain all file names
	Digest           string
	Nothing          bool
	Note             string
	Merge, Force     template.URL // the same plan with the option, "" where it makes no difference
	Chosen           string
	Danger           bool // others' changes would be lost
	Choose           bool // single files may be left out
	Pick             bool // single lines may be left out, even if whole files may not
}

type stepRow struct {
	N              int
	Letter, Name   string
	Added, Removed int
	Note           string
	Diff           template.URL // the plan's diff of the file
	Open           bool         // the lines are shown from the start
	File           bool         // the file may be left out
}

// openDiffs is the number of files whose lines are shown from the start.
const openDiffs = 3

// planFields are the fields that a request for a plan may have.
var planFields = []string{"kind", "action", "prompt", "session", "path", "plan", "seq", "at", "before", "after", "edits", "merge", "force"}

// verbs are the labels for the kinds of plans that pages request.
var verbs = map[string]string{"undo": "take back", "redo": "bring back", "revert": "restore this version", "restore": "restore"}

func request(q url.Values) (wire.PlanRequest, error) {
	r := wire.PlanRequest{Kind: q.Get("kind"), Action: number(q, "action"), Prompt: q.Get("prompt"), Session: q.Get("session"), Plan: q.Get("plan"),
		Merge: q.Get("merge") == "1", Force: q.Get("force") == "1"}
	path := q.Get("path")
	switch r.Kind {
	case "undo":
		for _, p := range q["path"] {
			r.Paths = append(r.Paths, []byte(p))
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
			return r, wire.Errorf(wire.ErrBadRequest, "", "the request does not say which plan to bring back")
		}
	case "revert":
		r.Path, r.Version = []byte(path), wire.ShowQuery{Seq: number(q, "seq")}
	case "restore":
		r.At = wire.ShowQuery{Seq: number(q, "at")}
		if path == "" || r.At.Seq == 0 {
			return r, wire.Errorf(wire.ErrBadRequest, "", "the request does not say what to restore")
		}
		for _, p := range q["path"] {
			r.Paths = append(r.Paths, []byte(p))
		}
	default:
		return r, wire.Errorf(wire.ErrBadRequest, "", "there is no plan of this kind")
	}
	return r, nil
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
	return s.planPart(ctx, p, q, digest), nil
}

// titleOf returns the title of a plan. If the plan undoes a prompt, the title contains its text.
func (s *source) titleOf(ctx context.Context, p wire.Plan, q url.Values) string {
	if q.Get("prompt") == "" {
		return oneLine(p.Title)
	}
	a, err := wire.Call[wire.Actions](ctx, s.c, wire.MActions, wire.ActionsQuery{Session: q.Get("session"), Prompt: q.Get("prompt"), Limit: 1, Files: 1})
	if err != nil || len(a.Actions) == 0 || a.Actions[0].Asked == "" {
		return oneLine(p.Title)
	}
	return "all of “" + text.Clip(oneLine(a.Actions[0].Asked), 200) + "”"
}

func (s *server) planPart(ctx context.Context, p wire.Plan, q url.Values, digest string) planPart {
	asked := url.Values{}
	for _, f := range planFields {
		if v := q[f]; len(v) > 0 && v[0] != "" {
			asked[f] = v
		}
	}
	out := planPart{Title: s.titleOf(ctx, p, q), Asked: asked.Encode(), Danger: q.Get("force") == "1", Verb: verbs[q.Get("kind")], Digest: digest, Nothing: len(p.Steps) == 0, Partly: p.Partly}
	shown, files := 0, 0
	for i, st := range p.Steps {
		out.Added, out.Removed = out.Added+st.Added, out.Removed+st.Removed
		if i >= shownSteps {
			out.More++
			continue
		}
		row := stepRow{N: i, Letter: history.StepLetter(st), Name: name(st.Path), Added: st.Added, Removed: st.Removed}
		if st.Do == "write" || st.Do == "delete" {
			row.Diff = template.URL("plandiff?" + with(with(asked, "of", string(st.Path)), "step", strconv.Itoa(i)).Encode())
			row.Open = shown < openDiffs
			shown++
		}
		row.File = st.Do != "mkdir" && st.Do != "rmdir"
		if row.File {
			files++
		}
		if len(st.To) > 0 {
			row.Name += " → " + name(st.To)
		}
		if st.Below > 0 {
			row.Note = "with " + text.Count(st.Below, "file")
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
	out.Pick = q.Get("kind") != "redo"
	if q.Get("edits") != "" {
		return out // later changes by others are preserved anyway, so --force does not apply
	}
	out.Choose = files > 1 && out.More == 0 && (q.Get("kind") == "undo" || q.Get("kind") == "restore")
	if kind := q.Get("kind"); kind == "undo" && q.Get("merge") == "" && len(p.Conflicts) > 0 {
		out.Merge = template.URL("plan?" + with(asked, "merge", "1").Encode())
	}
	if kind := q.Get("kind"); (kind == "undo" || kind == "redo") && q.Get("force") == "" && len(p.Conflicts) > 0 {
		out.Force = template.URL("plan?" + with(asked, "force", "1").Encode())
	}
	if q.Get("force") == "1" {
		out.Chosen = "later changes by others are overwritten"
	} else if q.Get("merge") == "1" {
		out.Chosen = "later changes by others are merged if they are in other lines"
	}
	return out
}

func with(v url.Values, name, value string) url.Values {
	out := url.Values{name: {value}}
	for k, x := range v {
		if k != name {
			out[k] = x
		}
	}
	return out
}

// digestOf returns a digest of a plan, so that only a plan that was shown is carried out.
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

type donePart struct {
	Text  string
	Left  []string // what was not done, or only partly
	Notes string
	Redo  template.URL
}

// apply carries out the plan that was shown, if it is still the same.
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
	v, page, err := s.carryOut(r.Context(), q, r.PostForm.Get("digest"), r.PostForm)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.render(w, r, page, v)
}

// carryOut carries out the chosen parts of the plan that the user agreed to.
func (s *server) carryOut(ctx context.Context, q url.Values, digest string, chosen url.Values) (v any, page string, err error) {
	r, err := request(q)
	if err != nil {
		return nil, "", err
	}
	s.applying.Lock()
	defer s.applying.Unlock()
	ctx = context.WithoutCancel(ctx) // closing the page does not withdraw the consent
	if err := s.checkExists(); err != nil {
		return nil, "", err
	}
	t := s.target()
	var notes bytes.Buffer
	e := *s.e
	e.Stdout, e.Stderr = io.Discard, &notes
	_, left, err := history.ResumeOpen(ctx, &e, t, s.c)
	if err != nil {
		return nil, "", err
	}
	apply.Settle(t.Base())
	again := func(note string) (any, string, error) {
		v, err := s.plan(ctx, q)
		if err != nil {
			return nil, "", err
		}
		part := v.(planPart)
		part.Note = note
		return part, "plan", nil
	}
	r.DryRun = true
	whole, err := wire.Call[wire.Plan](ctx, s.c, wire.MPlan, r)
	if err != nil {
		return nil, "", err
	}
	if digestOf(whole) != digest {
		return again(changedMeanwhile)
	}
	lines, err := s.leftLines(ctx, r, &whole, chosen)
	if err != nil {
		return nil, "", err
	}
	narrowed := len(lines) > 0
	if chosen.Get("choose") != "" {
		files, err := pathsOf(whole, chosen["file"])
		if err != nil {
			return nil, "", err
		}
		if len(files) > 0 {
			narrowed = true
			q = url.Values(maps.Clone(q))
			q["path"] = files
			r, err = request(q)
			if err != nil {
				return nil, "", err
			}
			lines = slices.DeleteFunc(lines, func(l wire.LeftLines) bool { return !slices.Contains(files, string(l.Path)) })
		}
	}
	r.DryRun, r.Leave = false, lines
	p, err := wire.Call[wire.Plan](ctx, s.c, wire.MPlan, r)
	if err != nil {
		return nil, "", err
	}
	switch {
	case !narrowed && digestOf(p) != digest:
		s.drop(ctx, p)
		return again(changedMeanwhile)
	case narrowed && !within(p, whole):
		s.drop(ctx, p)
		return again("Nothing was done yet. Without the parts that you left out, this is what would be done.")
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
			at := name(x.Path)
			if len(x.To) > 0 {
				at += " → " + name(x.To)
			}
			out.Left = append(out.Left, at+": "+oneLine(x.Why))
		}
	}
	if left > 0 && out.Notes == "" {
		out.Notes = "an earlier plan that was interrupted could not be finished completely"
	}
	if len(res.Done) > 0 {
		_ = s.seen.set(map[string]uint64{ownPlan(p.ID): 1}) // on an error, the plan is shown as new
		out.Redo = link("plan", "kind", "redo", "plan", p.ID)
	}
	return out, "done", nil
}

// changedMeanwhile is shown if a plan is no longer the one that was shown.
const changedMeanwhile = "Something changed meanwhile, so nothing was done yet. This is what would be done now."

// pathsOf returns the paths of the chosen files of a plan, or nil if all files were chosen.
func pathsOf(p wire.Plan, chosen []string) ([]string, error) {
	var paths []string
	files := 0
	for _, st := range p.Steps {
		if st.Do != "mkdir" && st.Do != "rmdir" {
			files++
		}
	}
	for _, c := range chosen {
		i, err := strconv.Atoi(c)
		if err != nil || i < 0 || i >= len(p.Steps) {
			return nil, wire.Errorf(wire.ErrBadRequest, "reload the page", "the plan has no file %q", c)
		}
		paths = append(paths, string(p.Steps[i].Path))
		if to := p.Steps[i].To; len(to) > 0 {
			paths = append(paths, string(to))
		}
	}
	switch {
	case len(chosen) == 0:
		return nil, wire.Errorf(wire.ErrBadRequest, "choose at least one", "no file is chosen")
	case len(chosen) == files:
		return nil, nil
	}
	return paths, nil
}

// leftLines returns the lines of a plan that were shown but not chosen. In the plan's steps, it
// replaces the content hashes by those of the contents without these lines.
func (s *server) leftLines(ctx context.Context, r wire.PlanRequest, whole *wire.Plan, form url.Values) (all []wire.LeftLines, err error) {
	unchosen := map[int]*wire.LeftLines{}
	for _, shown := range form["shown"] {
		step, lines, _ := strings.Cut(shown, ":")
		i, err := strconv.Atoi(step)
		if err != nil || i < 0 || i >= len(whole.Steps) {
			return nil, wire.Errorf(wire.ErrBadRequest, "reload the page", "the plan has no file %q", step)
		}
		for _, l := range strings.Split(lines, ",") {
			if slices.Contains(form["line"+step], l) {
				continue
			}
			n, err := strconv.Atoi(strings.TrimLeft(l, "on"))
			if err != nil {
				return nil, wire.Errorf(wire.ErrBadRequest, "reload the page", "%q is not a line", l)
			}
			if unchosen[i] == nil {
				unchosen[i] = &wire.LeftLines{Path: whole.Steps[i].Path}
			}
			if strings.HasPrefix(l, "o") {
				unchosen[i].Stay = append(unchosen[i].Stay, n)
			} else {
				unchosen[i].Out = append(unchosen[i].Out, n)
			}
		}
	}
	for i, l := range unchosen {
		from, to, err := s.planned(ctx, r, l.Path)
		if err != nil {
			return nil, err
		}
		part, ok := diff.Compare(from.data, to.data).Without(l.Stay, l.Out)
		if !ok {
			return nil, wire.Errorf(wire.ErrBadRequest, "reload the page", "the plan does not change these lines of %s", name(l.Path))
		}
		part, err = text.Like(to.data, part)
		if err != nil {
			return nil, wire.Errorf(wire.ErrBadRequest, "reload the page", "%s can only be changed as a whole", name(l.Path))
		}
		whole.Steps[i].Hash = fmt.Sprintf("%x", sha256.Sum256(part))
		all = append(all, *l)
	}
	return all, nil
}

// within reports whether all steps of a plan are also steps of whole.
func within(p, whole wire.Plan) bool {
	key := func(s wire.PlanStep) string {
		return fmt.Sprintf("%s %q %q %q %s %s %d", s.Do, s.Path, s.To, s.Target, s.Hash, s.Expect, s.Mode)
	}
	known := map[string]bool{}
	for _, s := range whole.Steps {
		known[key(s)] = true
	}
	return !slices.ContainsFunc(p.Steps, func(s wire.PlanStep) bool { return !known[key(s)] })
}

// planned returns a file as it is now and as a plan would make it.
func (s *server) planned(ctx context.Context, r wire.PlanRequest, path []byte) (from, to side, err error) {
	r.DryRun, r.Contents = true, path
	var p wire.Plan
	body, err := s.c.Call(ctx, wire.MPlan, r, nil, &p)
	if err != nil {
		return from, to, err
	}
	c := p.Contents
	if c == nil || c.Old > int64(len(body)) {
		return from, to, wire.Errorf(wire.ErrUnsupported, "end cachebro ui and start it again", "the daemon is of another version and shows no lines")
	}
	if c.Why != "" {
		return from, to, wire.Errorf(wire.ErrNotFound, "", "%s", c.Why)
	}
	from = side{there: c.Was, data: body[:c.Old:c.Old], Version: wire.Version{Path: path, Size: c.Old}}
	to = side{there: c.Will, data: body[c.Old:], Version: wire.Version{Path: path, Size: int64(len(body)) - c.Old}, byLine: c.Lines}
	return from, to, nil
}

// planDiff shows what a plan does to the lines of one file.
func (s *server) planDiff(ctx context.Context, q url.Values) (any, error) {
	r, err := request(q)
	if err != nil {
		return nil, err
	}
	from, to, err := s.planned(ctx, r, []byte(q.Get("of")))
	if errors.Is(err, wire.ErrNotFound) {
		return diffPart{Note: oneLine(err.Error())}, nil
	}
	if err != nil {
		return nil, err
	}
	if text.Binary(from.data) || text.Binary(to.data) || len(from.data)+len(to.data) > maxDiffed {
		return diffPart{Note: "binary, " + text.Bytes(from.Size) + " → " + text.Bytes(to.Size)}, nil
	}
	rows, out := diffOf(from, to, diffRows{context: diff.Context}), diffPart{}
	if len(rows.all) == 0 {
		out.Note = "no line differs"
	}
	choose := to.byLine && r.Kind != "redo"
	var lines []string
	for _, p := range rows.all[:min(len(rows.all), diffPiece)] {
		row := rows.show(p)
		if choose {
			row.Pick = pickOf(p)
		}
		if choose && p.hunk < 0 && row.Pick != "" {
			lines = append(lines, row.Pick)
		}
		out.Rows = append(out.Rows, row)
	}
	if len(lines) > 0 {
		out.Step = q.Get("step")
		out.Lines = out.Step + ":" + strings.Join(lines, ",")
	}
	if n := len(rows.all) - diffPiece; n > 0 {
		out.Note = text.Count(n, "row") + " more are not shown, and would change as well"
	}
	return out, nil
}

// pickOf returns what can be left out of a plan at a row of its diff: "hunk" for the whole hunk, or
// an old or new line, such as "o3" or "n5".
func pickOf(p place) string {
	switch {
	case p.hunk >= 0:
		return "hunk"
	case p.old >= 0 && p.new < 0:
		return "o" + strconv.Itoa(p.old)
	case p.new >= 0 && p.old < 0:
		return "n" + strconv.Itoa(p.new)
	}
	return ""
}

// drop tells the daemon that a plan has ended and no step of it was done.
func (s *source) drop(ctx context.Context, p wire.Plan) {
	if p.ID != "" && len(p.Steps) > 0 {
		_, _ = s.c.Call(ctx, wire.MPlanDone, wire.PlanDone{ID: p.ID, Finished: true}, nil, nil)
	}
}

// takeOf returns the plan that undoes an action. If the action is an undo or was undone, it returns
// the plan that reverses the undo. verb is the label of the button.
func takeOf(a wire.Action) (u template.URL, verb string) {
	switch {
	case a.Back:
		return bringBack(a.TakenBack)
	case a.Plan != "":
		u = link("plan", "kind", "redo", "plan", a.Plan)
		if strings.HasPrefix(a.Plan, "redo") {
			return u, "take back"
		}
		return u, "bring back"
	}
	return link("plan", "kind", "undo", "action", a.Last), "take back"
}

// bringBack returns the redo of the plan that undid a change. It returns nothing if several plans
// undid parts of it.
func bringBack(by []wire.TakenBack) (u template.URL, verb string) {
	if len(by) != 1 {
		return "", ""
	}
	return link("plan", "kind", "redo", "plan", by[0].Plan), "bring back"
}
