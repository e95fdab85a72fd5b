package daemon

import (
	"cmp"
	"slices"
	"strings"

	"cachebro/search"
	"cachebro/store"
	"cachebro/store/knowledge/notes"
	"cachebro/store/wire"
)

// kindNote is the kind of a search that is for notes alone.
const kindNote = "note"

// How many notes stand among the hits of a search that was not for notes, and
// behind how many other hits.
const (
	notesTold  = 3
	notesAfter = 5
)

// noteFit is how well a note must fit to be told unasked: less is one word of
// several, and not a rare one.
const noteFit = 0.34

// searchNotes answers a search for notes: those with a matching line, or else
// those that fit best.
func (d *Daemon) searchNotes(q wire.SearchQuery, sq search.Query, limit int, a *wire.SearchAnswer) error {
	switch q.Mode {
	case wire.SearchText, wire.SearchExact, wire.SearchRanked:
	default:
		return wire.Errorf(wire.ErrBadRequest, "search notes by text, exactly or ranked", "notes have no %s", q.Mode)
	}
	about := d.notesAbout("", store.Path(sq.Path))
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
	a.Lines, a.Truncated, a.Looked = len(hits), len(hits) > limit, len(about)
	a.Hits = append(a.Hits, hits[:min(limit, len(hits))]...)
	return nil
}

// addNotes puts notes that fit a question behind the best hits.
func (d *Daemon) addNotes(q wire.SearchQuery, sq search.Query, limit int, a *wire.SearchAnswer) {
	if q.Kind != "" || len(sq.Include) > 0 {
		return // files of one sort were asked for
	}
	hits := rankNotes(d.notesAbout("", store.Path(sq.Path)), q.Pattern, noteFit)
	hits = hits[:min(len(hits), notesTold)]
	a.Hits = slices.Insert(a.Hits, min(len(a.Hits), notesAfter), hits...)
	a.Hits = a.Hits[:min(len(a.Hits), limit)]
	a.Lines += len(hits)
}

// rankNotes are the notes that fit better than at least, the best ones first.
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

// noteTexts are what a note is found by.
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

// noteText is what the id of a note stands for.
func (d *Daemon) noteText(id string) (hit wire.SearchHit, ok bool) {
	n, ok := d.notes.Get(id)
	if !ok {
		return hit, false
	}
	first, _, _ := strings.Cut(n.Text, "\n")
	return noteHit(d.noteOut(n), 1, first), true
}

// Bounds of the notes that a recovery block has room for.
const maxRecoveryNotes = 10

// recoveryNotes are what a session should be reminded of: its own notes, those
// about the files that it works on, and then those about the project as a whole;
// newest first among each.
func (d *Daemon) recoveryNotes(session string, set wire.WorkingSet) (out []wire.Note, more int) {
	working := map[string]bool{}
	for _, f := range set.Files {
		working[string(f.Path)] = true
	}
	class := func(n wire.Note) int {
		switch {
		case n.Session == session:
			return 0
		case working[string(n.Path)]:
			return 1
		case len(n.Path) == 0:
			return 2
		}
		return 3
	}
	all := d.notes.All(notes.Filter{})
	for _, n := range all {
		if w := d.noteOut(n); class(w) < 3 {
			out = append(out, w)
		}
	}
	slices.SortStableFunc(out, func(x, y wire.Note) int { return cmp.Compare(class(x), class(y)) })
	out = out[:min(len(out), maxRecoveryNotes)]
	return out, len(all) - len(out)
}
