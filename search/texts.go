package search

import (
	"math"

	"cachebro/store"
)

// MatchTexts finds the lines of short texts, such as notes, that match an exact query. It returns
// the lines of each text, without a path. It ignores the query's filters and limits.
func MatchTexts(q Query, texts []string) ([][]Line, error) {
	auto, _, must, err := compile(q)
	if err != nil {
		return nil, err
	}
	m := newMatcher(q, auto, must)
	out := make([][]Line, len(texts))
	for i, t := range texts {
		out[i], _ = m.lines(store.Path(""), []byte(t), math.MaxInt)
	}
	return out, nil
}

// RankTexts returns how well each of some short texts fits a question, from 0 to 1. The result is
// the share of the question's words that the text has. Rare words count for more, and synonyms for
// less. Words are compared by their stems.
func RankTexts(question string, texts []string) []float64 {
	terms := queryTerms(question)
	stems := newStemmer()
	has := make([]map[string]bool, len(texts))
	df := map[string]int{}
	for i, t := range texts {
		has[i] = map[string]bool{}
		take := func(part []byte) {
			w := string(stems.stem(appendFolded(nil, part)))
			if !has[i][w] {
				has[i][w] = true
				df[w]++
			}
		}
		eachWord([]byte(t), func(start, end int) { eachTerm([]byte(t[start:end]), take) })
	}
	rarity := func(t term) float64 { return math.Log(1 + float64(len(texts)+1)/float64(df[t.text]+1)) }
	total := 0.0
	for _, t := range terms {
		if t.weight == 1 {
			total += rarity(t)
		}
	}
	out := make([]float64, len(texts))
	for i := range texts {
		for k, t := range terms {
			if t.weight != 1 {
				continue
			}
			best := 0.0
			if has[i][t.text] {
				best = 1
			} else {
				for j, also := range terms {
					if j != k && t.also&(1<<j) != 0 && has[i][also.text] {
						best = max(best, synonymWeight)
					}
				}
			}
			out[i] += best * rarity(t)
		}
		if total > 0 {
			out[i] /= total
		}
	}
	return out
}
