package search

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"slices"
	"sort"
	"strings"
	"testing"

	"cachebro/store"
	"cachebro/store/leaf/text"
)

// question is a natural query and the files that a Go developer would want.
type question struct {
	Ask  string   `json:"ask"`
	Want []string `json:"want"` // any of them
}

// leastMRR is the required quality of the ranking. Lower it only with a reason.
const leastMRR = 0.72

// TestRanking asks questions about a part of the Go source tree. It compares the ranking with a
// plain BM25 of whole files, which does not consider names or kinds of files.
func TestRanking(t *testing.T) {
	raw, err := os.ReadFile("../testdata/search/ranking.json")
	if err != nil {
		t.Fatal(err)
	}
	var qs []question
	if err := json.Unmarshal(raw, &qs); err != nil {
		t.Fatal(err)
	}
	if len(qs) < 60 {
		t.Fatalf("%d queries", len(qs))
	}
	root := goSource(t, "")
	c := newDiskCorpus(t, root)
	for p := range c.live { // the standard library except cmd
		if strings.HasPrefix(string(p), "cmd/") || strings.HasPrefix(string(p), "vendor/") {
			delete(c.live, p)
		}
	}
	x := openIndex(t, c)
	if err := x.CatchUp(context.Background()); err != nil {
		t.Fatal(err)
	}
	ref := newPlainBM25(t, c)
	ours, plain := 0.0, 0.0
	for _, q := range qs {
		for _, w := range q.Want {
			if _, ok := c.live[store.Path(w)]; !ok {
				t.Fatalf("%q: there is no %s", q.Ask, w)
			}
		}
		got, err := x.Rank(context.Background(), q.Ask, Query{}, Hints{}, 20)
		if err != nil {
			t.Fatal(err)
		}
		var paths []string
		for _, r := range got {
			paths = append(paths, string(r.Path))
		}
		a, b := reciprocal(paths, q.Want), reciprocal(ref.ask(q.Ask), q.Want)
		ours, plain = ours+a, plain+b
		if a < 0.5 {
			t.Logf("%.2f (plain %.2f) %q: %v", a, b, q.Ask, paths[:min(4, len(paths))])
		}
	}
	ours, plain = ours/float64(len(qs)), plain/float64(len(qs))
	t.Logf("%d queries: mean reciprocal rank %.3f, plain BM25 of whole files %.3f", len(qs), ours, plain)
	if ours < leastMRR || ours <= plain {
		t.Errorf("mean reciprocal rank %.3f, want more than %.3f and %.3f", ours, leastMRR, plain)
	}
}

func reciprocal(got, want []string) float64 {
	for i, p := range got[:min(20, len(got))] {
		if slices.Contains(want, p) {
			return 1 / float64(i+1)
		}
	}
	return 0
}

// plainBM25 is the textbook ranking of whole files by their stemmed words.
type plainBM25 struct {
	terms   []map[string]int
	length  []float64
	paths   []string
	df      map[string]int
	average float64
}

func newPlainBM25(t *testing.T, c *diskCorpus) *plainBM25 {
	t.Helper()
	b := &plainBM25{df: map[string]int{}}
	stems := newStemmer()
	for p := range c.live {
		content, err := c.Read(p, nil)
		if err != nil || text.Binary(content) {
			continue
		}
		tf, length := stemCounts(content, stems), 0.0
		for term, n := range tf {
			length += float64(n)
			b.df[term]++
		}
		b.terms, b.length, b.paths = append(b.terms, tf), append(b.length, length), append(b.paths, string(p))
		b.average += length
	}
	b.average /= float64(len(b.paths))
	return b
}

func (b *plainBM25) ask(text string) []string {
	scores := make([]float64, len(b.paths))
	order := make([]int, len(b.paths))
	for i := range order {
		order[i] = i
		for _, t := range queryTerms(text) {
			if tf := float64(b.terms[i][t.text]); tf > 0 && t.weight == 1 {
				df := float64(b.df[t.text])
				idf := math.Log(1 + (float64(len(b.paths))-df+0.5)/(df+0.5))
				scores[i] += idf * tf * 2.2 / (tf + 1.2*(0.25+0.75*b.length[i]/b.average))
			}
		}
	}
	sort.Slice(order, func(i, j int) bool {
		if scores[order[i]] != scores[order[j]] {
			return scores[order[i]] > scores[order[j]]
		}
		return b.paths[order[i]] < b.paths[order[j]]
	})
	var out []string
	for _, i := range order[:20] {
		out = append(out, b.paths[i])
	}
	return out
}

// TestRankFoldsEveryScript: the index folds a word's case by Unicode's rules, and a question folded
// it by strings.ToLower, which chooses the other form of most letters beyond ASCII. So no question
// with such a word found the text.
func TestRankFoldsEveryScript(t *testing.T) {
	c := newDiskCorpus(t, t.TempDir())
	c.write(t, "a.md", "Die Größe der Anlage\n")
	c.write(t, "b/приложение.md", "nothing\n")
	x := openIndex(t, c)
	if err := x.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	for ask, want := range map[string]store.Path{"größe": "a.md", "GRÖSSE Größe": "a.md", "Приложение": "b/приложение.md"} {
		got, err := x.Rank(t.Context(), ask, Query{}, Hints{}, 5)
		if err != nil || len(got) != 1 || got[0].Path != want {
			t.Errorf("%q: %v, %v; want %s", ask, got, err, want)
		}
	}
	if got := RankTexts("größe", []string{"Die Größe", "nothing"}); got[0] != 1 || got[1] != 0 {
		t.Errorf("the texts fit %v", got)
	}
}
