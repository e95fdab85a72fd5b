package search

import (
	"bytes"
	"hash/maphash"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/english"
)

// terms is the word dictionary as one block of memory, "\nword\nword\n". A search for a part of a
// word is one pass of bytes.Index over a few megabytes: 1–2 ms for the 400,000 words of a large
// tree. The index's own dictionary would have to be walked entry by entry.
type terms struct {
	block []byte
	known map[uint64]struct{} // hashes of the words in the block
	seed  maphash.Seed
}

func newTerms() *terms {
	return &terms{block: []byte{'\n'}, known: map[uint64]struct{}{}, seed: maphash.MakeSeed()}
}

// add appends a folded word unless the block contains it. A block that a query holds stays valid,
// because published bytes never change.
func (t *terms) add(word string) {
	h := maphash.String(t.seed, word)
	if _, ok := t.known[h]; ok {
		return
	}
	t.known[h] = struct{}{}
	t.block = append(append(t.block, word...), '\n')
}

// maxTerms bounds how many terms may satisfy a wordNeed. If there are more, the query does not use
// this need to exclude files.
const maxTerms = 4000

// matchTerms returns a block's words that satisfy a need. ok is false if there are too many.
func matchTerms(block []byte, w wordNeed) (words []string, ok bool) {
	if w.atStart && w.atEnd {
		return []string{w.text}, true
	}
	probe := w.text
	if w.atStart {
		probe = "\n" + probe
	}
	if w.atEnd {
		probe += "\n"
	}
	needle := []byte(probe)
	for at := 0; ; {
		i := bytes.Index(block[at:], needle)
		if i < 0 {
			return words, true
		}
		i += at
		if !w.atStart {
			i = bytes.LastIndexByte(block[:i], '\n')
		}
		end := i + 1 + bytes.IndexByte(block[i+1:], '\n')
		words = append(words, string(block[i+1:end]))
		if len(words) > maxTerms {
			return nil, false
		}
		at = end
	}
}

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
