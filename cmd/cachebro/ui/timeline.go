package ui

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"html/template"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/history"
	"cachebro/store/leaf/text"
	"cachebro/store/wire"
)

const (
	pageActions = 30 // actions per request
	shortFiles  = 8  // files of an action that are listed at first
	allFiles    = 2000
	openFiles   = 50 // files of a set of changes whose lines are shown from the start
	laneColumns = 120
	laneTop     = 20 // height of a bar in the picture
	maxLanes    = 8
	// recentActions bounds the actions fetched for the picture and for unseen changes.
	recentActions = 400
	// laneFiles bounds the files that are listed for each action. The list is needed to count each
	// file only once.
	laneFiles = 1000
)

// timelinePage shows everything that was done, or what was done to one path.
type timelinePage struct {
	Of            string // description, "" for everything
	Path, Session string
	From          template.URL // the address of the actions
	Author        string
	Since, Until  string
	Kinds         []searchMode
	Chosen        bool         // not all actions are shown
	Tree          template.URL // the files of a single set of changes
}

// chosen are the fields of a query that select actions.
var chosen = []string{"action", "session", "prompt", "path", "author", "kind", "since", "until"}

// kinds are the kinds of changes by which actions can be selected.
var kinds = []string{wire.FileAdded, wire.FileModified, wire.FileDeleted, wire.FileRenamed, wire.FileMode}

func ofKind(all []wire.Action, kind string) []wire.Action {
	return slices.DeleteFunc(wire.WithEffect(all), func(a wire.Action) bool {
		return kind != "" && !slices.ContainsFunc(a.Files, func(f wire.ActionFile) bool { return f.Change == kind })
	})
}

// ask converts a page's query into the daemon's query for actions.
func (s *server) ask(q url.Values) (wire.ActionsQuery, error) {
	aq := wire.ActionsQuery{Session: q.Get("session"), Prompt: q.Get("prompt"), Path: []byte(q.Get("path")), Author: q.Get("author")}
	for name, t := range map[string]*time.Time{"since": &aq.Since, "until": &aq.Until} {
		at, ok := wire.ParseTime(q.Get(name), s.e.Now())
		if l, named := s.e.LabelOf(s.t.Root, q.Get(name)); !ok && named {
			at, ok = l.At, true
		}
		if q.Get(name) != "" && !ok {
			return aq, wire.Errorf(wire.ErrBadRequest, "12:40, 2026-05-01 12:40, 10m or a label", "%s is not a time", cli.Quote(q.Get(name)))
		}
		*t = at
	}
	if n := number(q, "action"); n > 0 {
		aq.Seq, aq.Limit = n+1, 1
	}
	return aq, nil
}

// timeline returns the head of the page. The page requests its parts separately.
func (s *server) timeline(ctx context.Context, q url.Values) (any, error) {
	p := timelinePage{Path: q.Get("path"), Session: q.Get("session"), Author: q.Get("author"), Since: q.Get("since"), Until: q.Get("until")}
	if _, err := s.ask(q); err != nil {
		return nil, err
	}
	var args []any
	for _, k := range chosen {
		args = append(args, k, q.Get(k))
		p.Chosen = p.Chosen || q.Get(k) != ""
	}
	p.From = link("actions", args...)
	if isSet(q) {
		p.Tree = link("tree", args...)
	}
	for _, k := range kinds {
		p.Kinds = append(p.Kinds, searchMode{k, changes[k], k == q.Get("kind")})
	}
	if n := number(q, "action"); n > 0 {
		p.Of = fmt.Sprintf("action %d", n)
	} else if p.Path != "" {
		p.Of = name([]byte(p.Path))
	} else if p.Session != "" {
		p.Of = "session " + nameOfSession(p.Session, "", "")
		a, err := wire.Call[wire.Actions](ctx, s.c, wire.MActions, wire.ActionsQuery{Session: p.Session, Limit: 1, Files: 1})
		if err == nil && len(a.Actions) > 0 {
			p.Of = "session " + nameOfSession(p.Session, a.Actions[0].Client, a.Actions[0].Began)
		}
	}
	return p, nil
}

// actionsPart is a page of the log by action.
type actionsPart struct {
	Groups []group
	Asides []string     // gaps and notices that fall between the actions
	More   template.URL // the next page, or "" if there is none
	Newest uint64       // the newest version in it
	Empty  bool
}

// group holds consecutive actions of one prompt.
type group struct {
	ID, Asked, About string
	Session          string       // the session's name, "" outside of sessions
	To               template.URL // everything of the session
	Set              template.URL // all files of the prompt
	Actions          []action
	Take             template.URL // a plan that undoes everything that the prompt changed
}

type action struct {
	ID, Print      string // Print changes whenever the action changes
	Unsure         bool   // not everything is counted yet
	Last           uint64
	Time, Command  string
	Sum            string
	Link           template.URL // this action alone
	Labels         []string     // the labels of the moment when it was done
	Added, Removed int
	Partly         bool
	Who, Rest      string
	By             string
	Files          []fileRow
	MoreFiles      string
	All            template.URL // all its files
	Take           template.URL
	Verb           string // what Take does
	Back           string // which plans undid it
	Gone           bool   // it was undone completely
	Seen           bool
}

type fileRow struct {
	ID             string // the id of its place on the page
	Open           bool   // its lines are shown from the start
	Letter, What   string
	From           string
	Above, Name    string
	Added, Removed int
	Note, Bad      string
	Diff, Page     template.URL
	Take           template.URL
	Verb           string // what Take does
	Back           string // which plans undid it
	Gone           bool   // it was undone completely
}

func (s *server) actions(ctx context.Context, q url.Values) (any, error) {
	aq, err := s.ask(q)
	if err != nil {
		return nil, err
	}
	aq.Fold, aq.Lines = true, true
	aq.Files, aq.Limit = shortFiles, cmp.Or(aq.Limit, pageActions)
	one := q.Get("action") != ""
	if !one {
		aq.Seq = number(q, "before")
	}
	if skip := q.Get("skip"); skip != "" {
		if err := json.Unmarshal([]byte(skip), &aq.Skip); err != nil {
			return nil, fmt.Errorf("read the position of the next page: %w", err)
		}
	}
	kind := q.Get("kind")
	if kind != "" || isSet(q) { // the action's first files may not include the wanted ones
		aq.Files, aq.Fold = allFiles, false
	}
	a, err := wire.Call[wire.Actions](ctx, s.c, wire.MActions, aq)
	for err == nil && a.More && !one && len(ofKind(a.Actions, kind)) == 0 { // skip pages without a matching action
		aq.Seq, aq.Skip = a.Seq, a.Skip
		gaps, notices := a.Gaps, a.Notices
		a, err = wire.Call[wire.Actions](ctx, s.c, wire.MActions, aq)
		a.Gaps, a.Notices = append(gaps, a.Gaps...), append(notices, a.Notices...)
	}
	if err != nil {
		return nil, err
	}
	out := actionsPart{Empty: len(ofKind(a.Actions, kind)) == 0 && q.Get("before") == "" && !a.More}
	marks := s.seen.read()
	for _, x := range a.Actions {
		out.Newest = max(out.Newest, x.Last)
	}
	labels, err := cli.Labels(s.state)
	if err != nil {
		labels = nil // if the file is broken, no labels are shown
	}
	newer := cmp.Or(aq.Seq, math.MaxUint64)
	for _, x := range ofKind(a.Actions, kind) {
		id := groupID(x)
		if n := len(out.Groups); n == 0 || out.Groups[n-1].ID != id {
			out.Groups = append(out.Groups, s.groupOf(x, id))
		}
		g := &out.Groups[len(out.Groups)-1]
		row := s.actionOf(x, marks)
		if isSet(q) {
			row.Files, row.MoreFiles = s.rowsOf(x, allFiles), ""
			for i := range row.Files {
				row.Files[i].Open = i < openFiles
			}
		}
		for _, l := range labels {
			if x.Last <= l.Seq && l.Seq < newer {
				row.Labels = append(row.Labels, oneLine(l.Name))
			}
		}
		newer = min(newer, x.Last)
		g.Actions = append(g.Actions, row)
	}
	for _, g := range a.Gaps {
		out.Asides = append(out.Asides, fmt.Sprintf("%s  content not saved: %s (%s)", s.timeText(g.Time), name(g.Path), oneLine(g.Reason)))
	}
	for _, n := range a.Notices {
		out.Asides = append(out.Asides, s.timeText(n.Time)+"  "+oneLine(n.Text))
	}
	if a.More && !one {
		skip, err := json.Marshal(a.Skip)
		if err != nil {
			return nil, err
		}
		next := url.Values{"before": {fmt.Sprint(a.Seq)}}
		if len(a.Skip) > 0 {
			next.Set("skip", string(skip))
		}
		for _, k := range chosen {
			if q.Get(k) != "" {
				next.Set(k, q.Get(k))
			}
		}
		out.More = template.URL("actions?" + next.Encode())
	}
	return out, nil
}

func groupID(a wire.Action) string {
	if a.Actor.Session == "" {
		return "p-"
	}
	return "p-" + digest(a.Actor.Session+" "+a.Actor.Prompt)
}

// digest returns a short id for a page's element from any text.
func digest(text string) string {
	h := fnv.New64a()
	h.Write([]byte(text))
	return fmt.Sprintf("%x", h.Sum64())
}

func (s *server) groupOf(a wire.Action, id string) group {
	g := group{ID: id}
	if a.Actor.Session == "" {
		return g
	}
	switch {
	case a.Asked != "":
		g.Asked = "“" + lines(a.Asked) + "”"
	case a.Actor.Prompt != "":
		g.Asked = "prompt " + oneLine(a.Actor.Prompt)
	default:
		g.Asked = "no prompt known"
	}
	var about []string
	if a.Client != "" {
		about = append(about, oneLine(a.Client))
	}
	g.Session = nameOfSession(a.Actor.Session, a.Client, a.Began)
	g.To = link("./", "session", a.Actor.Session)
	if !a.AskedAt.IsZero() {
		about = append(about, s.timeText(a.AskedAt))
	}
	g.About = strings.Join(about, ", ")
	if a.Actor.Prompt != "" {
		g.Take = link("plan", "kind", "undo", "prompt", a.Actor.Prompt, "session", a.Actor.Session)
		g.Set = link("./", "session", a.Actor.Session, "prompt", a.Actor.Prompt)
	}
	return g
}

func (s *server) actionOf(a wire.Action, marks map[string]uint64) action {
	x := action{ID: "a-" + digest(fmt.Sprint(a.Key, a.First)), Last: a.Last, Time: s.timeText(a.End), Command: oneLine(a.Command), Sum: text.Count(a.Count, "file"),
		Added: a.Added, Removed: a.Removed, Partly: a.Partly, Who: history.Whose(a, uid), Rest: history.Rest(a), Seen: isSeen(a, marks), Back: history.BackOf(a), Gone: a.Back}
	if a.Least {
		x.Sum = "at least " + x.Sum
	}
	if a.Count == 0 {
		x.Sum, x.Rest = x.Rest, ""
	}
	x.By = history.StartedBy(a)
	x.Link = link("./", "action", a.Last)
	x.Take, x.Verb = takeOf(a)
	x.Files = s.rowsOf(a, shortFiles)
	if history.Listed(a.Files) < a.Count || slices.ContainsFunc(a.Files, func(f wire.ActionFile) bool { return f.Folded }) {
		x.MoreFiles = "all " + text.Count(a.Count, "file")
		x.All = link("files", "key", a.Key, "first", a.First, "last", a.Last)
	}
	x.Unsure = a.Partly || slices.ContainsFunc(a.Files, func(f wire.ActionFile) bool { return uncounted(f) })
	x.Print = digest(fmt.Sprint(x))
	return x
}

// uncounted reports whether the changed lines of a file should be shown but are not known yet.
func uncounted(f wire.ActionFile) bool {
	return !f.Counted && !f.Dir && f.Change != wire.FileDeleted && f.Change != wire.FileMode
}

func (s *server) rowsOf(a wire.Action, most int) []fileRow {
	var rows []fileRow
	for _, f := range a.Files {
		if len(rows) == most {
			break
		}
		rows = append(rows, s.rowOf(a, f))
	}
	return rows
}

// changes names each kind of change, for people who do not know or cannot see the letters.
var changes = map[string]string{wire.FileAdded: "added", wire.FileModified: "changed", wire.FileDeleted: "deleted", wire.FileRenamed: "renamed", wire.FileMode: "mode"}

func (s *server) rowOf(a wire.Action, f wire.ActionFile) fileRow {
	r := fileRow{ID: placeOf(a, f), Letter: history.LetterOf(cli.Paint{}, f), What: changes[f.Change], Added: f.Added, Removed: f.Removed}
	r.Above, r.Name = cutName(f.Path, f.Dir)
	if f.Folded {
		r.Above, r.Name = strings.TrimPrefix(r.Above+r.Name, "/"), "*"
	}
	if len(f.From) > 0 {
		r.From = name(f.From)
	}
	var notes []string
	switch {
	case f.Dir && f.Below > 0:
		notes = append(notes, text.Count(f.Below, "file"))
	case f.Binary:
		notes = append(notes, "binary, "+text.Bytes(f.Size))
	case uncounted(f):
		notes = append(notes, text.Bytes(f.Size))
	}
	if f.Ignored {
		notes = append(notes, "git ignores it")
	}
	if f.By != "" {
		notes = append(notes, oneLine(f.By))
	}
	r.Note = strings.Join(notes, ", ")
	switch {
	case f.Missing != "":
		r.Bad = oneLine(f.Missing)
	case f.Lost != "":
		r.Bad = oneLine(f.Lost)
	case f.Also != "":
		r.Bad = "also changed meanwhile by " + text.Clip(oneLine(f.Also), 50)
	}
	if !f.Dir {
		r.Page = link("file", "path", string(f.Path), "seq", f.Seq)
		r.Diff = link("diff", "from", f.Before, "to", f.Seq)
	}
	if !a.Back {
		r.Back, r.Gone = history.TakenBackText(f.TakenBack), wire.TakenBackWhole(f.TakenBack)
	}
	switch {
	case a.Count < 2 || f.Folded || a.Back:
	case r.Gone:
		r.Take, r.Verb = bringBack(f.TakenBack)
	case a.Plan == "":
		r.Take = link("plan", "kind", "undo", "action", a.Last, "path", string(f.Path))
		r.Verb = "take back"
	}
	return r
}

// actionFiles lists all files of one action.
func (s *server) actionFiles(ctx context.Context, q url.Values) (any, error) {
	a, err := s.findAction(ctx, q.Get("key"), number(q, "first"), number(q, "last"))
	if err != nil {
		return nil, err
	}
	return s.rowsOf(a, allFiles), nil
}

// findAction requests an action again, with all its files.
func (s *source) findAction(ctx context.Context, key string, first, last uint64) (wire.Action, error) {
	for seq := last + 1; seq > first; {
		a, err := wire.Call[wire.Actions](ctx, s.c, wire.MActions, wire.ActionsQuery{Seq: seq, Limit: 5, Files: allFiles, Lines: true})
		if err != nil {
			return wire.Action{}, err
		}
		for _, x := range a.Actions {
			if x.Key == key {
				return x, nil
			}
		}
		if !a.More || a.Seq >= seq {
			break
		}
		seq = a.Seq
	}
	return wire.Action{}, wire.Errorf(wire.ErrNotFound, "reload the page", "the log does not have this action any more")
}

// lanesPart is the chart that shows when each actor wrote.
type lanesPart struct {
	From, To    string
	Begin, Step int64 // the start of the first column and the length of each, in ms
	Lanes       []laneRow
	Zooms       []choice
	Note        string // what the picture leaves out
	Width       int
	Top         int
}

type laneRow struct {
	Name, Sum string
	Session   string
	To        template.URL
	Bars      []bar
}

type bar struct {
	X, Y, H int
	What    string
	To      template.URL // the actions in this column
}

// zooms are the time spans that the picture can show.
var zooms = []struct {
	name string
	span time.Duration
}{{"hour", time.Hour}, {"day", 24 * time.Hour}, {"week", 7 * 24 * time.Hour}, {"all", 0}}

func (s *server) lanes(ctx context.Context, q url.Values) (any, error) {
	out := lanesPart{Width: laneColumns * 8, Top: laneTop}
	here := cmp.Or(q.Get("zoom"), "all")
	var since time.Time
	for _, z := range zooms {
		out.Zooms = append(out.Zooms, choice{z.name, template.URL("lanes?zoom=" + z.name), z.name == here})
		if z.name == here && z.span > 0 {
			since = s.e.Now().Add(-z.span)
		}
	}
	a, err := s.recent(ctx)
	a.Actions = slices.DeleteFunc(slices.Clone(a.Actions), func(x wire.Action) bool { return x.End.Before(since) })
	if err != nil || len(a.Actions) == 0 {
		return out, err
	}
	pic := pictureOf(a.Actions, laneColumns, maxLanes)
	out.From, out.To = s.timeText(pic.From), s.timeText(pic.To)
	if a.More && len(a.Actions) == recentActions {
		out.Note = fmt.Sprintf("the last %d actions", len(a.Actions))
	}
	column := max(pic.To.Sub(pic.From), time.Second) / laneColumns
	out.Begin, out.Step = pic.From.UnixMilli(), max(column.Milliseconds(), 1)
	for _, l := range pic.Lanes {
		row := laneRow{Name: l.Name, Sum: l.Files.String(), Session: l.Session}
		if l.Session != "" {
			row.Name = nameOfSession(l.Session, l.Name, l.Began)
			row.To = link("./", "session", l.Session)
		}
		for i, n := range l.Heights {
			h := height(n, pic.Most, laneTop)
			if h == 0 {
				continue
			}
			begin := pic.From.Add(column * time.Duration(i))
			row.Bars = append(row.Bars, bar{i * 8, laneTop - h, h, text.Count(n, "file") + ", " + s.timeText(begin),
				link("./", "session", l.Session, "since", begin.Add(-time.Second).UTC().Format(time.RFC3339), "until", begin.Add(column+time.Second).UTC().Format(time.RFC3339))})
		}
		out.Lanes = append(out.Lanes, row)
	}
	return out, nil
}
