package find

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"cachebro/search"
	"cachebro/store"
	"cachebro/store/leaf/event"
	"cachebro/store/leaf/ignore"
	"cachebro/store/leaf/text"
	"cachebro/store/onwire"
	"cachebro/store/wire"
)

const (
	searchDefault = 20
	maxHits       = 100_000
)

// search answers from the index. The answer includes every file that was closed before the
// request.
func (f *Finder) search(ctx context.Context, q wire.SearchQuery) (wire.SearchAnswer, []byte, error) {
	a := wire.SearchAnswer{Hits: []wire.SearchHit{}, How: q.Mode}
	sq, err := f.searchQuery(ctx, q)
	if err != nil {
		return a, nil, err
	}
	limit := q.Limit
	if limit == 0 {
		limit = searchDefault
	} else if limit < 0 || limit > maxHits {
		limit = maxHits
	}
	if q.Mode == wire.SearchText {
		if got, ok := f.fetch(ctx, strings.TrimSpace(q.Pattern)); ok {
			return got, nil, nil
		}
	}
	if q.Kind == kindNote {
		return a, nil, f.searchNotes(q, sq, limit, &a)
	}
	a.Warning = f.Survey.Refresh(ctx, q.NoRefresh)
	h := f.hints(q.Session)
	switch q.Mode {
	case wire.SearchExact, wire.SearchText:
		err = f.searchExact(ctx, q, sq, h, limit, &a)
		if err == nil && len(a.Hits) == 0 {
			a.Suggest = f.Index.Suggest(q.Pattern, 3)
		}
		if err == nil && len(a.Hits) == 0 && q.Mode == wire.SearchText && !q.Regex {
			err = f.searchRanked(ctx, q, sq, h, limit, &a)
			f.addNotes(q, sq, limit, &a)
			if len(a.Hits) == 0 {
				f.searchNames(q, sq, min(limit, 5), &a)
			}
		}
	case wire.SearchRanked:
		err = f.searchRanked(ctx, q, sq, h, limit, &a)
		f.addNotes(q, sq, limit, &a)
	case wire.SearchSymbols:
		err = f.searchSymbols(ctx, q, sq, h, limit, &a)
	case wire.SearchFiles:
		f.searchNames(q, sq, limit, &a)
		if q.Gone {
			err = f.addGone(sq, limit, &a)
		}
	case wire.SearchPrompt:
		err = f.searchPrompt(ctx, q, sq, h, limit, &a)
	case wire.SearchHistory:
		err = f.searchPast(ctx, sq, limit, &a)
	default:
		err = wire.Errorf(wire.ErrBadRequest, "exact, ranked, symbols, files or history", "unknown search mode %q", q.Mode)
	}
	f.addNotSearched(ctx, sq, &a)
	if err == nil && q.Body {
		f.addBodies(&a)
	}
	return a, nil, err
}

// addNotSearched names the files in a query's scope that no search shows: those that look like secrets,
// and a path that git ignores or that is no file or directory. Otherwise it would seem that they do not
// contain the pattern.
func (f *Finder) addNotSearched(ctx context.Context, sq search.Query, a *wire.SearchAnswer) {
	a.NotSearched = search.NotSearched(a.NotSearched, "secret", f.Answers.Secrets(sq.Admits))
	p := store.Path(sq.Path)
	if p == "" {
		return
	}
	st, err := f.Source.Lstat(ctx, p)
	switch {
	case f.Source.ClassNow(ctx, p) != ignore.Tracked:
		a.NotSearched = search.NotSearched(a.NotSearched, "ignored", []store.Path{p})
	case err == nil && st.IsLink():
		a.NotSearched = search.NotSearched(a.NotSearched, "link that leads to no file of the project", []store.Path{p})
	case err == nil && !st.IsRegular() && !st.IsDir():
		a.NotSearched = search.NotSearched(a.NotSearched, "not a file", []store.Path{p})
	}
}

// searchQuery checks a query and translates it for the index.
func (f *Finder) searchQuery(ctx context.Context, q wire.SearchQuery) (search.Query, error) {
	sq := search.Query{Pattern: q.Pattern, Regex: q.Regex, CaseSensitive: q.CaseSensitive, Include: q.Include, Exclude: q.Exclude, Kind: search.Kind(q.Kind)}
	if strings.TrimSpace(q.Pattern) == "" {
		return sq, wire.Errorf(wire.ErrBadRequest, "name a word, a phrase or a regular expression", "the pattern is empty")
	}
	if q.Kind != "" && !slices.Contains([]search.Kind{search.Code, search.Doc, search.Config, search.Test, search.Other, kindNote}, sq.Kind) {
		return sq, wire.Errorf(wire.ErrBadRequest, "kinds are code, doc, config, test, other, note", "unknown kind %q", q.Kind)
	}
	p, err := f.Paths.Clean(q.Path)
	if err != nil {
		return sq, err
	}
	sq.Path = string(f.Source.Resolved(ctx, p))
	if err := search.Check(sq); err != nil {
		text, hint, _ := strings.Cut(err.Error(), "; hint: ")
		return sq, wire.Errorf(wire.ErrBadRequest, hint, "%s", text)
	}
	if !q.AllWorktrees {
		sq.Exclude = append(slices.Clone(sq.Exclude), f.worktrees(ctx, sq.Path)...)
	}
	return sq, nil
}

// worktrees returns globs that exclude the linked worktrees inside the project, except for the one
// that the query is about.
func (f *Finder) worktrees(ctx context.Context, path string) (globs []string) {
	for _, tree := range f.Source.Worktrees(ctx) {
		if !store.Path(path).Inside(store.Path(tree)) {
			globs = append(globs, "/"+tree)
		}
	}
	return globs
}

// hints returns, for ranking, the files that a session works on and how often files were fetched.
func (f *Finder) hints(session string) search.Hints {
	h := search.Hints{Now: time.Now(), Working: map[store.Path]bool{}, Uses: f.hitIDs.uses()}
	if session == "" {
		return h
	}
	touches, err := f.Sets.Of(store.SessionID(session))
	if err != nil {
		return h
	}
	for _, t := range touches {
		h.Working[t.Path] = true
	}
	return h
}

func (f *Finder) searchExact(ctx context.Context, q wire.SearchQuery, sq search.Query, h search.Hints, limit int, a *wire.SearchAnswer) error {
	if q.Mode == wire.SearchExact { // hits keep their order, so the first ones suffice
		sq.Limit = limit
	}
	if limit < maxHits {
		sq.Enough = limit
	}
	r, err := f.grep(ctx, sq)
	if err != nil {
		return err
	}
	a.How = wire.SearchExact
	a.Files = r.Files
	a.Lines = r.Total
	a.Looked = r.Candidates
	a.NotSearched = r.NotSearched
	a.AtLeast = r.AtLeast
	addWarning(a, r.Warning)
	if q.Mode == wire.SearchText {
		f.Index.Best(&r, sq, h)
	}
	a.Truncated = r.AtLeast && len(r.Lines) > 0 || r.Total > min(limit, len(r.Lines))
	for i, l := range r.Lines[:min(limit, len(r.Lines))] {
		hit := fileHit(l.Path, float64(len(r.Lines)-i)/float64(len(r.Lines)))
		hit.Line = l.No
		hit.Text = string(l.Text)
		hit.At = l.At
		hit.Before = l.Before
		hit.LineBytes = l.Size
		hit.Title = fmt.Sprintf("%s:%d: %s", l.Path, l.No, strings.TrimSpace(string(l.Text)))
		a.Hits = append(a.Hits, f.addTime(hit))
	}
	return nil
}

// addWarning adds a warning to those of an answer, unless it is empty.
func addWarning(a *wire.SearchAnswer, warning string) {
	if warning != "" {
		a.Warning = strings.TrimPrefix(a.Warning+"; "+warning, "; ")
	}
}

func (f *Finder) searchRanked(ctx context.Context, q wire.SearchQuery, sq search.Query, h search.Hints, limit int, a *wire.SearchAnswer) error {
	all, err := f.Index.Rank(ctx, q.Pattern, sq, h, 0)
	if err != nil {
		return err
	}
	a.How = wire.SearchRanked
	a.Files, a.Lines = len(all), len(all)
	a.Truncated = len(all) > limit
	a.NotSearched = search.JoinNotSearched(a.NotSearched, f.Index.NotIndexed(sq)) // after an exact search, both count
	for _, r := range all[:min(limit, len(all))] {
		hit := fileHit(r.Path, r.Score)
		hit.Line, hit.Text = f.Index.BestLine(r, q.Pattern)
		hit.Last = r.Last
		hit.Title = fmt.Sprintf("%s:%d: %s", r.Path, hit.Line, strings.TrimSpace(hit.Text))
		a.Hits = append(a.Hits, f.addTime(hit))
	}
	return nil
}

func (f *Finder) searchSymbols(ctx context.Context, q wire.SearchQuery, sq search.Query, h search.Hints, limit int, a *wire.SearchAnswer) error {
	all, notSearched, err := f.Index.Symbols(ctx, q.Pattern, sq, h, 0)
	if err != nil {
		return err
	}
	a.NotSearched = notSearched
	a.Lines, a.Truncated = len(all), len(all) > limit
	for _, s := range all[:min(limit, len(all))] {
		hit := wire.SearchHit{ID: search.SymbolID(s.Path, s.Name), Type: "symbol", Path: []byte(s.Path), Line: s.Line, Last: s.Last,
			Text: s.Signature, Title: s.Kind + " " + s.Name, Score: s.Score, Symbol: s.Name}
		f.hitIDs.known.Put(hit.ID, hit)
		a.Hits = append(a.Hits, f.addTime(hit))
	}
	if len(a.Hits) == 0 {
		a.Suggest = f.Index.Suggest(q.Pattern, 3)
	}
	return nil
}

func (f *Finder) searchNames(q wire.SearchQuery, sq search.Query, limit int, a *wire.SearchAnswer) {
	hits := f.Index.Names(q.Pattern, sq, limit+1)
	a.How, a.Truncated = wire.SearchFiles, len(hits) > limit
	for _, n := range hits[:min(limit, len(hits))] {
		hit := fileHit(n.Path, n.Score)
		hit.Title = string(n.Path)
		a.Hits = append(a.Hits, f.addTime(hit))
	}
	a.Files, a.Lines = len(a.Hits), len(a.Hits)
}

// addGone adds the deleted files whose path contains the pattern, most recently deleted first.
func (f *Finder) addGone(sq search.Query, limit int, a *wire.SearchAnswer) error {
	var gone []store.Version
	err := f.Store.DeletedIn(store.Path(sq.Path), func(v store.Version) bool {
		file := v.Class == event.Tracked && !v.Stat.IsDir() && !store.OwnFile(v.Path)
		if file && sq.IsPartOf(v.Path) && !f.wasTemporary(v) {
			gone = append(gone, v)
		}
		return true
	})
	slices.SortFunc(gone, func(a, b store.Version) int { return cmp.Compare(b.Seq, a.Seq) })
	a.Files, a.Lines = a.Files+len(gone), a.Lines+len(gone)
	for i, v := range gone {
		if len(a.Hits) >= limit {
			a.Truncated = a.Truncated || i < len(gone)
			break
		}
		hit := wire.SearchHit{ID: search.VersionID(v.Seq), Type: "version", Path: []byte(v.Path), Title: string(v.Path), Time: onwire.Time(v.Time), Past: &wire.Past{Gone: onwire.Version(v)}}
		if last, err := f.Store.Version(v.Prev); err == nil {
			hit.Past.Last = onwire.Version(last)
		}
		a.Hits = append(a.Hits, hit)
	}
	return err
}

// wasTemporary reports whether a deleted path was only the temporary name of a file, as in an
// atomic save.
func (f *Finder) wasTemporary(v store.Version) bool {
	if v.Op != store.OpMoved {
		return false
	}
	last, err := f.Store.Version(v.Prev)
	return err != nil || last.Actor.PID == v.Actor.PID && last.Actor.Start == v.Actor.Start && last.Op != store.OpBaseline
}

func (f *Finder) searchPast(ctx context.Context, sq search.Query, limit int, a *wire.SearchAnswer) error {
	r, err := f.Index.History(ctx, sq, limit+1)
	if err != nil {
		return err
	}
	if r.Cut {
		addWarning(a, fmt.Sprintf("only the newest part of the history was searched (%s), because the rest would take too long; give a path", text.Count(r.Versions, "content")))
	}
	a.Files, a.Lines = len(r.Hits), len(r.Hits)
	a.Truncated = len(r.Hits) > limit
	a.Looked, a.NotSearched = r.Versions, r.NotSearched
	for _, p := range r.Hits[:min(limit, len(r.Hits))] {
		hit := wire.SearchHit{ID: search.VersionID(p.Last), Type: "version", Path: []byte(p.Path), Line: p.No, Text: p.Text, Score: 1,
			Title: fmt.Sprintf("%s:%d: %s", p.Path, p.No, strings.TrimSpace(p.Text)), Past: &wire.Past{Versions: p.Versions}}
		for _, part := range []struct {
			seq  uint64
			into *wire.Version
		}{{p.First, &hit.Past.First}, {p.Last, &hit.Past.Last}, {p.Gone, &hit.Past.Gone}} {
			if v, err := f.Store.Version(part.seq); err == nil {
				*part.into = onwire.Version(v)
			}
		}
		hit.Time = hit.Past.Last.Time
		a.Hits = append(a.Hits, hit)
	}
	return nil
}

func fileHit(p store.Path, score float64) wire.SearchHit {
	return wire.SearchHit{ID: search.FileID(p), Type: "file", Path: []byte(p), Score: score}
}

// addTime adds the time of the file's newest version.
func (f *Finder) addTime(hit wire.SearchHit) wire.SearchHit {
	if v, ok, err := f.Store.Current(store.Path(hit.Path)); err == nil && ok {
		hit.Time = onwire.Time(v.Time)
		if v.Stat.Mtime != 0 {
			hit.Time = onwire.Time(v.Stat.Mtime)
		}
	}
	return hit
}

// maxBody is how many lines of an enclosing definition are returned with a hit.
const maxBody = 120

// addBodies adds the text of the definitions around the hits, each definition once.
func (f *Finder) addBodies(a *wire.SearchAnswer) {
	added := map[string]bool{}
	for i := range a.Hits {
		hit := &a.Hits[i]
		if hit.Line == 0 || hit.Type == "version" || hit.Type == "note" {
			continue
		}
		content, err := f.Files.Read(store.Path(hit.Path), nil)
		if err != nil {
			continue
		}
		s, ok := search.Enclosing(search.Outline(string(hit.Path), content), hit.Line)
		if !ok {
			continue
		}
		hit.Symbol = s.Name
		if key := fmt.Sprintf("%s:%d", hit.Path, s.First); !added[key] {
			added[key] = true
			hit.Body = f.Index.Lines(store.Path(hit.Path), s.First, min(s.Last, s.First+maxBody-1))
			hit.Last = s.Last
		}
	}
}
