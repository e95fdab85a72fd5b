package ui

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"html/template"
	"net/url"
	"strings"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/doctor"
	"cachebro/store/leaf/text"
	"cachebro/store/undo/apply"
	"cachebro/store/wire"
)

type searchPage struct {
	Text  string
	Regex bool
	Modes []searchMode
}

type searchMode struct {
	Mode, Name string
	Here       bool
}

var searchModes = []searchMode{{wire.SearchText, "text", false}, {wire.SearchRanked, "meaning", false}, {wire.SearchSymbols, "definitions", false}, {wire.SearchFiles, "file names", false}, {wire.SearchHistory, "deleted text", false}}

func (s *server) search(_ context.Context, q url.Values) (any, error) {
	p := searchPage{Text: q.Get("q"), Regex: q.Get("regex") == "1"}
	for _, m := range searchModes {
		m.Here = m.Mode == q.Get("mode")
		p.Modes = append(p.Modes, m)
	}
	return p, nil
}

type hitsPart struct {
	Hits []hitRow
	Sum  string
	Note string
	Past template.URL // a search for the text in the history, if no present file contains it
	At   template.URL // the address of this search
}

func (p hitsPart) address() template.URL { return p.At }
func (p hitsPart) series() string        { return "find" }

type hitRow struct {
	Name, Past string
	Line       int
	Text       template.HTML
	To         template.URL
}

const maxHits = 100

func (s *server) hits(ctx context.Context, q url.Values) (any, error) {
	here := link("search", "q", q.Get("q"), "mode", q.Get("mode"), "regex", q.Get("regex"))
	if strings.TrimSpace(q.Get("q")) == "" {
		return hitsPart{At: here}, nil
	}
	query := wire.SearchQuery{Pattern: q.Get("q"), Mode: q.Get("mode"), Limit: maxHits, Regex: q.Get("regex") == "1", Gone: true}
	a, err := wire.Call[wire.SearchAnswer](ctx, s.c, wire.MSearch, query)
	if err != nil {
		return nil, err
	}
	out := hitsPart{Note: oneLine(a.Warning), At: here}
	found := []any{"find", query.Pattern, "regex", q.Get("regex")}
	if query.NearestBy(a) != "" || a.How == wire.SearchFiles {
		found = nil // the line does not contain the pattern
	}
	for _, h := range a.Hits {
		row := hitRow{Name: name(h.Path), Line: h.Line, Text: line([]byte(strings.TrimSpace(strings.SplitN(h.Text, "\n", 2)[0])), nil, nil),
			To: link("file", append([]any{"path", string(h.Path), "line", uint64(max(h.Line, 0))}, found...)...)}
		if len(h.Path) == 0 {
			row.Name, row.To = oneLine(h.Title), ""
		}
		switch {
		case h.Past != nil && a.How == wire.SearchFiles:
			row.Past = s.goneWhen(h.Past.Gone)
		case h.Past != nil:
			row.Past = "existed until " + s.timeText(h.Past.Last.Time) + "; " + s.goneWhen(h.Past.Gone)
			row.To = link("file", append([]any{"path", string(h.Path), "seq", h.Past.Last.Seq, "line", uint64(max(h.Line, 0))}, found...)...)
		}
		out.Hits = append(out.Hits, row)
	}
	nearest := query.NearestBy(a)
	if nearest != "" || len(a.Hits) == 0 && query.Mode != wire.SearchHistory {
		out.Past = link("search", "q", query.Pattern, "mode", wire.SearchHistory)
	}
	switch {
	case nearest != "":
		out.Sum = fmt.Sprintf("no line has %s; the nearest by %s:", cli.Quote(query.Pattern), nearest)
	case len(a.Hits) == 0 && len(a.Suggest) > 0:
		out.Sum = "nothing found; did you mean " + oneLine(strings.Join(a.Suggest, ", ")) + "?"
	case len(a.Hits) == 0:
		out.Sum = "nothing found"
	case a.Truncated:
		out.Sum = fmt.Sprintf("%d of %s", len(a.Hits), a.Counts())
	default:
		out.Sum = text.Count(len(a.Hits), "hit")
	}
	return out, nil
}

// savingsPage shows how many tokens were delivered to agents, and how many were saved.
type savingsPage struct {
	Tools   []toolRow
	Sum     string
	Bad     bool // cachebro added more tokens than it saved
	Set     []setRow
	Nothing bool
}

type toolRow struct {
	Name              string
	Calls             int
	Full, Sent, Saved string
}

type setRow struct {
	Name, Note   string
	Reads, Edits int
	To           template.URL
}

func (s *server) savings(ctx context.Context, q url.Values) (any, error) {
	m, err := wire.Call[wire.Metrics](ctx, s.c, wire.MMetrics, wire.MetricsQuery{Session: q.Get("session")})
	if err != nil {
		return nil, err
	}
	out := savingsPage{Bad: m.Saved < 0, Nothing: m.Calls == 0 && m.Overhead == 0}
	for _, t := range m.Tools {
		out.Tools = append(out.Tools, toolRow{oneLine(t.Tool), t.Calls, text.Thousands(t.Full), text.Thousands(t.Sent), text.Thousands(t.Saved)})
	}
	out.Sum = fmt.Sprintf("without cachebro ~%s tokens, delivered ~%s, overhead ~%s: ~%s saved (%.1f%%)", text.Thousands(m.Full), text.Thousands(m.Sent), text.Thousands(m.Overhead), text.Thousands(m.Saved), m.Percent)
	if out.Bad {
		out.Sum = fmt.Sprintf("without cachebro ~%s tokens, delivered ~%s, overhead ~%s: it cost ~%s more than it saved", text.Thousands(m.Full), text.Thousands(m.Sent), text.Thousands(m.Overhead), text.Thousands(-m.Saved))
	}
	set, err := wire.Call[wire.WorkingSet](ctx, s.c, wire.MWorkingSet, wire.WorkingSetQuery{Session: "last", Limit: 100})
	if err != nil {
		return out, nil // there is no session yet
	}
	for _, f := range set.Files {
		out.Set = append(out.Set, setRow{Name: name(f.Path), Reads: f.Reads, Edits: f.Edits, Note: oneLine(f.Others), To: link("file", "path", string(f.Path))})
	}
	return out, nil
}

// storagePart is the space that the history takes.
type storagePart struct {
	Sums  []fact
	Lists []shares
	Gaps  []string
	More  int
}

// share is the space that one path, session or class takes, as the daemon sends it.
type share struct {
	Name     string
	Raw      []byte `json:"Name_base64"`
	Bytes    int64
	Versions int
}

func (x share) name() string {
	if x.Raw != nil {
		return name(x.Raw)
	}
	return name([]byte(x.Name))
}

type fact struct{ Name, Value string }

type shares struct {
	Title string
	Rows  []shareRow
}

type shareRow struct {
	Name, Note string
	Width      int // of its bar, in thousandths of the largest
}

const maxGaps = 20

func (s *server) storage(ctx context.Context, _ url.Values) (any, error) {
	a, err := wire.Call[wire.StoreAnswer](ctx, s.c, wire.MStore, wire.StoreRequest{Do: "du"})
	if err != nil {
		return nil, err
	}
	var u struct {
		Disk, Shared, Free, Contents, Log, Slack int64
		Paths, Sessions, Classes                 []share
	}
	if err := json.Unmarshal(a.Facts, &u); err != nil {
		return nil, fmt.Errorf("read what du counts: %w", err)
	}
	st, err := wire.Call[wire.Status](ctx, s.c, wire.MStatus, wire.Empty{})
	if err != nil {
		return nil, err
	}
	out := storagePart{Sums: []fact{{"on disk", text.Bytes(u.Disk)}, {"free there", text.Bytes(u.Free)}, {"contents", text.Bytes(u.Contents)}, {"log and indexes", text.Bytes(u.Log)},
		{"deleted, but not yet freed on disk", text.Bytes(u.Slack)}, {"versions", text.Thousands(int64(st.Store.Versions))}, {"files", text.Thousands(int64(st.Store.Files))}}}
	if u.Shared > 0 {
		out.Sums = append(out.Sums, fact{"shared with other worktrees", text.Bytes(u.Shared)})
	}
	for _, l := range []struct {
		title, none string
		all         []share
	}{{"by path", "", u.Paths}, {"by session", "outside of sessions", u.Sessions}, {"by class", "", u.Classes}} {
		list, most := shares{Title: l.title}, int64(1)
		for _, x := range l.all {
			most = max(most, x.Bytes)
		}
		for _, x := range l.all {
			if len(list.Rows) == 25 {
				break
			}
			if x.Bytes == 0 || apply.Temporary([]byte(x.Name)) {
				continue
			}
			x.Name = cmp.Or(x.Name, l.none)
			list.Rows = append(list.Rows, shareRow{x.name(), fmt.Sprintf("%s, %s", text.Bytes(x.Bytes), text.Count(x.Versions, "version")), int(x.Bytes * 1000 / most)})
		}
		out.Lists = append(out.Lists, list)
	}
	for _, g := range st.Gaps[:min(len(st.Gaps), maxGaps)] {
		out.Gaps = append(out.Gaps, fmt.Sprintf("%s  %s: %s", s.timeText(g.Time), name(g.Path), oneLine(g.Reason)))
	}
	out.More = int(st.GapCount) - len(out.Gaps)
	return out, nil
}

type healthPart struct {
	Findings []doctor.Finding
	Bad      int
}

func (s *server) findings(ctx context.Context, _ url.Values) (any, error) {
	var out healthPart
	for _, f := range doctor.QuickFindings(ctx, s.e, s.target().Base()) {
		if !f.OK {
			out.Bad++
		}
		out.Findings = append(out.Findings, doctor.Finding{What: oneLine(f.What), Text: oneLine(f.Text), Fix: oneLine(f.Fix), OK: f.OK})
	}
	return out, nil
}

// empty is the answerer of pages that request all their parts separately.
func empty(context.Context, url.Values) (any, error) { return nil, nil }
