package find

import (
	"cmp"
	"slices"
	"strings"

	"cachebro/search"
	"cachebro/store"
	"cachebro/store/wire"
)

const kindNote = "note"

// A search that is not only for notes shows at most notesShown notes, after notesAfter other hits.
const (
	notesShown = 3
	notesAfter = 5
)

// noteFit is the score that a note must exceed to be shown among other hits. A note with a lower
// score shares only one common word with a query of several words.
const noteFit = 0.34

// searchNotes answers a search for notes. It returns the notes with a matching line or, if there
// are none, those that fit best.
func (f *Finder) searchNotes(q wire.SearchQuery, sq search.Query, limit int, a *wire.SearchAnswer) error {
	switch q.Mode {
	case wire.SearchText, wire.SearchExact, wire.SearchRanked:
	default:
		return wire.Errorf(wire.ErrBadRequest, "search notes by text, exactly or ranked", "notes have no %s", q.Mode)
	}
	about := f.Knowledge.NotesAbout("", store.Path(sq.Path))
	var hits []wire.SearchHit
	if q.Mode != wire.SearchRanked {
		lines, err := search.MatchTexts(sq, noteTexts(about))
		if err != nil {
			return err
		}
		for i, n := range about {
			if len(lines[i]) > 0 {
				hits = append(hits, noteHit(n, 1, string(lines[i][0].Text)))
			}
		}
		a.How = wire.SearchExact
	}
	if q.Mode == wire.SearchRanked || q.Mode == wire.SearchText && !q.Regex && len(hits) == 0 {
		hits, a.How = rankNotes(about, q.Pattern, 0), wire.SearchRanked
	}
	a.Lines, a.Looked = len(hits), len(about)
	a.Truncated = len(hits) > limit
	a.Hits = append(a.Hits, hits[:min(limit, len(hits))]...)
	return nil
}

// addNotes adds notes that fit a question, below the best hits.
func (f *Finder) addNotes(q wire.SearchQuery, sq search.Query, limit int, a *wire.SearchAnswer) {
	if q.Kind != "" || len(sq.Include) > 0 {
		return // the query is restricted to certain files
	}
	hits := rankNotes(f.Knowledge.NotesAbout("", store.Path(sq.Path)), q.Pattern, noteFit)
	hits = hits[:min(len(hits), notesShown)]
	a.Hits = slices.Insert(a.Hits, min(len(a.Hits), notesAfter), hits...)
	a.Hits = a.Hits[:min(len(a.Hits), limit)]
	a.Lines += len(hits)
}

// rankNotes lists the notes that fit better than least, the best first.
func rankNotes(list []wire.Note, question string, least float64) (hits []wire.SearchHit) {
	for i, score := range search.RankTexts(question, noteTexts(list)) {
		if n := list[i]; score > least {
			line, _, _ := strings.Cut(n.Text, "\n")
			hits = append(hits, noteHit(n, score, line))
		}
	}
	slices.SortStableFunc(hits, func(x, y wire.SearchHit) int { return cmp.Compare(y.Score, x.Score) })
	return hits
}

func noteTexts(list []wire.Note) []string {
	out := make([]string, len(list))
	for i, n := range list {
		out[i] = n.Text
	}
	return out
}

func noteHit(n wire.Note, score float64, line string) wire.SearchHit {
	first, _, _ := strings.Cut(n.Text, "\n")
	return wire.SearchHit{ID: n.ID, Type: "note", Path: n.Path, Text: line, Title: n.Kind + ": " + first, Score: score, Time: n.Time, Note: &n}
}

func (f *Finder) noteText(id string) (hit wire.SearchHit, ok bool) {
	n, ok := f.Knowledge.Note(id)
	if !ok {
		return hit, false
	}
	first, _, _ := strings.Cut(n.Text, "\n")
	return noteHit(n, 1, first), true
}
