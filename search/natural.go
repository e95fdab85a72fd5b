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

// stopWords are words that say nothing about the subject of a question.
var stopWords = set("a an and any are as at be been but by can could do does did for from get had has have he how i if in into is it its just like may me more my no not of on one or our out over please shall she should so some such than that the their them then there these they this those to up us use used using was way we were what when where which who why will with would you your code file function implemented implementation defined find show make need want")

// synonyms are pairs of words that programmers use for the same thing. Each is a synonym of the
// other.
var synonyms = pairs(`config cfg, configuration config, directory dir, folder dir, delete remove, error err, message msg,
 request req, response resp, context ctx, string str, buffer buf, connection conn, address addr, argument arg, parameter param,
 temporary tmp, temporary temp, initialize init, execute exec, command cmd, environment env, variable var, number num, length len,
 previous prev, function func, source src, destination dst, database db, authentication auth, authorization auth, password passwd,
 synchronize sync, asynchronous async, maximum max, minimum min, statistics stats, statistic stat, parser parse, lexer scanner, tokenizer scanner,
 allocate alloc, allocator malloc, garbage gc, collector gc, goroutine proc, scheduler proc, scheduler sched, signature sign, verify check, compress deflate,
 regex regexp, expression regexp, hashmap map, mutex lock, thread proc, url uri, http web, time date, utility util, reference ref, pointer ptr, print printf,
 format fmt, encode marshal, decode unmarshal, serialize marshal, deserialize unmarshal, start begin, end finish, application app, specification spec`)

func pairs(text string) map[string][]string {
	m := map[string][]string{}
	stems := newStemmer()
	for _, pair := range strings.Split(text, ",") {
		words := strings.Fields(pair)
		a, b := string(stems.stem([]byte(words[0]))), string(stems.stem([]byte(words[1])))
		m[a], m[b] = append(m[a], b), append(m[b], a)
	}
	return m
}

// synonymWeight is the weight of a synonym. The word itself has 1.
const synonymWeight = 0.4

// queryTerms returns the terms of a natural query: its words and the parts of its identifiers,
// stemmed, and their synonyms. Stop words count only if the query has no other words.
func queryTerms(text string) []term {
	stems := newStemmer()
	seen := map[string]int{}
	var out, stops []term
	take := func(part []byte) {
		w := string(appendFolded(nil, part)) // as in the index
		if len(w) < 2 || len(w) > maxPart || '0' <= w[0] && w[0] <= '9' {
			return
		}
		t := term{text: string(stems.stem([]byte(w))), weight: 1}
		if _, dup := seen[t.text]; dup || len(out) >= terms64/3 {
			return
		}
		if stopWords[w] {
			stops = append(stops, t)
			return
		}
		seen[t.text] = len(out)
		out = append(out, t)
	}
	eachWord([]byte(text), func(start, end int) {
		word := []byte(text[start:end])
		eachTerm(word, take)
	})
	if len(out) == 0 {
		return stops
	}
	for i := range out[:len(out):len(out)] {
		for _, s := range synonyms[out[i].text] {
			at, known := seen[s]
			if !known {
				if len(out) >= terms64 {
					break
				}
				at = len(out)
				seen[s] = at
				out = append(out, term{text: s, weight: synonymWeight})
			}
			out[i].also |= 1 << at
		}
	}
	return out
}

// Keywords returns at most n words of a prompt that are worth looking up. They are in lower case,
// have three or more characters, and are not stop words.
func Keywords(prompt string, n int) []string {
	var out []string
	seen := map[string]bool{}
	for _, w := range strings.FieldsFunc(strings.ToLower(prompt), func(r rune) bool { return r >= 0x80 || !isWord(r) || r == '_' }) {
		if len(w) < 3 || stopWords[w] || seen[w] {
			continue
		}
		seen[w] = true
		out = append(out, w)
		if len(out) == n {
			break
		}
	}
	return out
}

// If the words of a question occur in few files, related words are added to the question. These are
// words that the best chunks share and that are rare in the project. Files found by the added words
// come after all files with the question's own words.
const (
	fewRanked   = 12 // a question that finds this many files or more is not widened
	widenFrom   = 5  // number of chunks from which words are taken
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
	// The scores of these files are for other words and cannot be compared, so place them after all
	// other files.
	least := few[len(few)-1].Score
	for i, f := range more {
		if !known[f.Path] && len(few) < fewRanked {
			f.Score = least / float64(i+2)
			few = append(few, f)
		}
	}
	return few, nil
}

// termsNearby returns the terms that at least half of the best chunks have and few other chunks
// have.
func (x *Index) termsNearby(ctx context.Context, r index.IndexReader, query []term, best []Ranked) ([]term, error) {
	in := map[string]int{}
	stems := x.stems.Get().(*stemmer)
	for _, b := range best {
		for t := range stemCounts([]byte(x.Lines(b.Path, b.First, b.Last)), stems) {
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
