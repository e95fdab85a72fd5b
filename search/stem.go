package search

import (
	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/english"
)

// stemmer reduces English words to their stems and remembers them. A few thousand words make up
// most of a tree, and stemming each occurrence took a quarter of the indexing time. Not safe for
// concurrent use.
type stemmer struct{ known map[string][]byte }

// maxStems bounds what a stemmer remembers, at about 100 bytes each.
const maxStems = 20_000

func newStemmer() *stemmer { return &stemmer{known: map[string][]byte{}} }

// stem returns the stem of a folded word. Identifiers that are not words mostly stay unchanged, in
// queries too. The result may share memory with the argument and must not be modified.
func (s *stemmer) stem(word []byte) []byte {
	if len(word) < 4 || len(word) > 24 {
		return word
	}
	if got, ok := s.known[string(word)]; ok {
		return got
	}
	for _, c := range word {
		if c < 'a' || c > 'z' {
			return word
		}
	}
	env := snowballstem.NewEnv(string(word))
	english.Stem(env)
	got := []byte(env.Current())
	if len(s.known) >= maxStems {
		clear(s.known)
	}
	s.known[string(word)] = got
	return got
}
