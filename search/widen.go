package search

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"cachebro/store"

	index "github.com/blevesearch/bleve_index_api"
)

// A question whose words occur in few files is widened by words near them: words that the best
// chunks share and that are rare in the project. Files found in this way come after all files with
// the question's own words.
const (
	fewRanked   = 12 // with as many files the question is not widened
	widenFrom   = 5  // chunks from which words are taken
	widenTerms  = 5
	widenWeight = 0.3
)

func (x *Index) widen(ctx context.Context, r index.IndexReader, query []term, few []Ranked, q Query, h Hints) ([]Ranked, error) {
	nearby, err := x.termsNearby(ctx, r, query, few[:min(len(few), widenFrom)])
	if err != nil || len(nearby) == 0 {
		return few, err
	}
	more, err := x.rankTerms(ctx, r, nearby, q, h)
	if err != nil {
		return nil, err
	}
	known := map[store.Path]bool{}
	for _, f := range few {
		known[f.Path] = true
	}
	// Their scores are for other words, so they go below the least score so far.
	least := few[len(few)-1].Score
	for i, f := range more {
		if !known[f.Path] && len(few) < fewRanked {
			f.Score = least / float64(i+2)
			few = append(few, f)
		}
	}
	return few, nil
}

// termsNearby returns the terms that at least half of the best chunks have and few others do.
func (x *Index) termsNearby(ctx context.Context, r index.IndexReader, query []term, best []Ranked) ([]term, error) {
	in := map[string]int{}
	stems := x.stems.Get().(*stemmer)
	for _, b := range best {
		f := newField("", 0, 0)
		f.takeParts([]byte(x.Lines(b.Path, b.First, b.Last)), stems)
		for t := range f.terms {
			in[t]++
		}
	}
	x.stems.Put(stems)
	n, err := r.DocCount()
	if err != nil {
		return nil, err
	}
	type rare struct {
		text  string
		score float64
	}
	var all []rare
	for t, chunks := range in {
		if len(t) < 3 || stopWords[t] || 2*chunks < len(best) || slices.ContainsFunc(query, func(q term) bool { return q.text == t }) {
			continue
		}
		tfr, err := r.TermFieldReader(ctx, []byte(t), fieldPart, false, false, false)
		if err != nil {
			return nil, err
		}
		df := float64(tfr.Count())
		tfr.Close()
		if idf := math.Log(1 + (float64(n)-df+0.5)/(df+0.5)); df > float64(chunks) && df <= float64(n)/10 {
			all = append(all, rare{t, float64(chunks) * idf})
		}
	}
	slices.SortFunc(all, func(a, b rare) int { return cmp.Or(cmp.Compare(b.score, a.score), strings.Compare(a.text, b.text)) })
	var out []term
	for _, t := range all[:min(len(all), widenTerms)] {
		out = append(out, term{text: t.text, weight: widenWeight})
	}
	return out, nil
}
