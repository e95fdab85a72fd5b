package search

import (
	"cmp"
	"context"
	"errors"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"cachebro/store"
	"cachebro/store/leaf/ignore"

	index "github.com/blevesearch/bleve_index_api"
)

// Hints tell the ranking what the project's people and agents are working on. The zero value
// contains no hint.
type Hints struct {
	Now       time.Time
	Working   map[store.Path]bool // files read or edited in the asking session
	Uses      map[store.Path]int  // how often a file was fetched from the hits of a search
	WordsOnly bool                // search by words only, even with an Embedder
}

// Ranked is one chunk of a file, with the file's score.
type Ranked struct {
	Path        store.Path
	First, Last int
	Score       float64
}

// weight returns a file's weight. Source counts for more than tests, prose and settings, unless the
// query asks for these. Hand-written files count for more than generated ones, and files being
// worked on for more than others. The factors for recency and use are bounded, so that they never
// outweigh a much better fit.
func weight(p store.Path, f *file, query []term, h Hints) float64 {
	w := kindWeight[f.kind]
	switch {
	case f.kind == Test && asks(query, "test"),
		f.kind == Doc && asks(query, "doc", "readm", "guid"),
		f.kind == Config && asks(query, "config", "set"):
		w = 1
	}
	if f.gen {
		w *= 0.5
	}
	for _, dir := range strings.Split(path.Dir(string(p)), "/") {
		if ignore.CanBeRebuilt(dir) || slices.Contains(aside, dir) {
			w *= 0.6
		}
	}
	if h.Working[p] {
		w *= 1.5
	}
	if age := h.Now.Sub(time.Unix(0, f.time)); !h.Now.IsZero() && age >= 0 {
		w *= 1 + 0.25*math.Exp(-age.Hours()/72)
	}
	return w * (1 + min(0.5, 0.1*math.Log2(float64(1+h.Uses[p]))))
}

var kindWeight = map[Kind]float64{Code: 1, Doc: 0.7, Config: 0.6, Test: 0.5, Other: 0.4}

// aside are directories that usually do not contain the project's own source.
var aside = []string{"testdata", "vendor", "third_party", "dist", "examples"}

func asks(query []term, stems ...string) bool {
	return slices.ContainsFunc(query, func(t term) bool { return slices.Contains(stems, t.text) })
}

// score returns how well a file fits a query. Only the score decides the order of the files. It is
// the product of three factors:
//   - BM25 over the parts of a chunk's words, with more weight for names defined there and
//     for the names of the file and its directories
//   - the square of the share of the query's terms that the file has
//   - the file's own weight
func score(f *found, query []term, w float64) float64 {
	has, all := 0.0, 0.0
	for i, t := range query {
		if t.weight < 1 {
			continue // t is a synonym
		}
		all += t.idf
		if f.has&(1<<i) != 0 || query[i].also != 0 && f.has&query[i].also != 0 {
			has += t.idf
		}
	}
	coverage := 1.0
	if all > 0 {
		coverage = has / all
	}
	return (f.best + 0.25*f.second + f.name) * coverage * coverage * w
}

const (
	bmK, bmB   = 1.2, 0.6
	symbolGain = 2.2 // factor for a term of a name defined in the chunk
	baseGain   = 2.6 // factor for a term of the file's own name
	dirGain    = 1.6 // factor for a term of the innermost directory's name
	upGain     = 0.5 // factor for a term of another directory's name
)

// term is one word of a ranked query.
type term struct {
	text   string
	weight float64 // 1, or less for a synonym
	idf    float64
	also   uint64 // bit set of the term's synonyms
}

// found is a file that a ranked query found: the scores of its two best chunks and of its name, its
// best chunk, and the bit set of the query's terms that it has.
type found struct {
	best, second, name float64
	chunk              span
	has                uint64
}

// terms64 is the maximum number of terms of a query, including synonyms. Each term has one bit of a
// uint64.
const terms64 = 60

// rankWords answers a natural query by its words, from the postings of its terms.
func (x *Index) rankWords(ctx context.Context, text string, q Query, h Hints, limit int) ([]Ranked, error) {
	query := queryTerms(text)
	if len(query) == 0 {
		return nil, nil
	}
	x.settleFor(ctx)
	reader, err := x.reader()
	if errors.Is(err, errNoIndex) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	out, err := x.rankTerms(ctx, reader, query, q, h)
	if err != nil {
		return nil, err
	}
	if len(out) > 0 && len(out) < fewRanked {
		out, err = x.widen(ctx, reader, query, out, q, h)
		if err != nil {
			return nil, err
		}
	}
	return out[:limited(len(out), limit)], nil
}

func (x *Index) rankTerms(ctx context.Context, reader index.IndexReader, query []term, q Query, h Hints) ([]Ranked, error) {
	chunks, err := x.scoreChunks(ctx, reader, query)
	if err != nil {
		return nil, err
	}
	files := map[store.Path]*found{}
	for doc, c := range chunks {
		id, err := reader.ExternalID(index.NewIndexInternalID(nil, doc))
		if err != nil {
			return nil, err
		}
		p, lines, ok := parseID(id)
		if !ok {
			continue
		}
		f := files[p]
		if f == nil {
			f = &found{}
			files[p] = f
		}
		f.has |= c.has
		if c.score > f.best {
			f.second = f.best
			f.best, f.chunk = c.score, lines
		} else {
			f.second = max(f.second, c.score)
		}
	}
	stems := x.stems.Get().(*stemmer)
	defer x.stems.Put(stems)
	x.mu.RLock()
	defer x.mu.RUnlock()
	var out []Ranked
	for p, f := range x.files {
		if !q.admits(p, f.kind) {
			continue
		}
		hit := files[p]
		name, has := nameScore(p, query, stems)
		if hit == nil {
			if name == 0 {
				continue
			}
			hit = &found{chunk: span{1, 1}}
		}
		hit.name, hit.has = name, hit.has|has
		out = append(out, Ranked{Path: p, First: int(hit.chunk.first), Last: int(hit.chunk.last), Score: score(hit, query, weight(p, &f, query, h))})
	}
	slices.SortFunc(out, func(a, b Ranked) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Path, b.Path))
	})
	return out, nil
}

// scored is the score of one chunk so far.
type scored struct {
	score float64
	has   uint64
}

// maxScored bounds how many of the chunks that a query finds are mapped to their files.
const maxScored = 3000

func (x *Index) scoreChunks(ctx context.Context, r index.IndexReader, query []term) (map[uint64]*scored, error) {
	n, err := r.DocCount()
	if err != nil {
		return nil, err
	}
	all := map[uint64]*scored{}
	for i := range query {
		t := &query[i]
		for _, field := range []string{fieldPart, fieldSym} {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			tfr, err := r.TermFieldReader(ctx, []byte(t.text), field, true, true, false)
			if err != nil {
				return nil, err
			}
			df := float64(tfr.Count())
			if field == fieldPart {
				t.idf = math.Log(1 + (float64(n)-df+0.5)/(df+0.5))
			}
			err = eachDoc(tfr, func(d *index.TermFieldDoc) error {
				c := all[d.ID.Value()]
				if c == nil {
					c = &scored{}
					all[d.ID.Value()] = c
				}
				c.has |= 1 << i
				if field == fieldSym {
					c.score += symbolGain * t.weight * t.idf
					return nil
				}
				length := 300.0 // length of an ordinary chunk, in words
				if d.Norm > 0 {
					length = 1 / (d.Norm * d.Norm)
				}
				tf := float64(d.Freq)
				c.score += t.weight * t.idf * tf * (bmK + 1) / (tf + bmK*(1-bmB+bmB*length/300))
				return nil
			})
			if err != nil {
				return nil, err
			}
		}
	}
	most := maxScored
	x.mu.RLock()
	for _, f := range x.removed { // the chunks of deleted files are not shown
		most += f.chunks.len()
	}
	x.mu.RUnlock()
	if len(all) > most {
		keep := make([]float64, 0, len(all))
		for _, c := range all {
			keep = append(keep, c.score)
		}
		slices.Sort(keep)
		least := keep[len(keep)-most]
		for id, c := range all {
			if c.score < least {
				delete(all, id)
			}
		}
	}
	return all, nil
}

// nameScore returns the score of the query's terms in a path, and the bit set of these terms.
func nameScore(p store.Path, query []term, stems *stemmer) (sum float64, has uint64) {
	dirs := strings.Split(strings.ToLower(string(p)), "/")
	for at, part := range dirs {
		gain := upGain
		switch at {
		case len(dirs) - 1:
			gain, part = baseGain, strings.TrimSuffix(part, path.Ext(part))
		case len(dirs) - 2:
			gain = dirGain
		}
		var pieces []string
		eachWord([]byte(part), func(start, end int) {
			eachTerm([]byte(part[start:end]), func(t []byte) { pieces = append(pieces, string(t)) })
		})
		for _, piece := range pieces {
			stem := string(stems.stem(appendFolded(nil, []byte(piece))))
			for i, t := range query {
				if t.text == stem && has&(1<<i) == 0 {
					sum += gain * t.weight * t.idf / math.Sqrt(float64(len(pieces)))
					has |= 1 << i
				}
			}
		}
	}
	return sum, has
}
