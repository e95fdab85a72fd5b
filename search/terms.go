package search

import (
	"bytes"
	"hash/maphash"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/english"
)

// terms is the word dictionary as one block of memory, "\nword\nword\n". A search for a part of a
// word is one pass of bytes.Index over a few megabytes, which takes 1–2 ms for the 400,000 words of
// a large tree. In bleve's own dictionary, such a search would have to visit every entry.
type terms struct {
	block []byte
	known map[uint64]struct{} // hashes of the words in the block
	seed  maphash.Seed
}

func newTerms() *terms {
	return &terms{block: []byte{'\n'}, known: map[uint64]struct{}{}, seed: maphash.MakeSeed()}
}

// add appends a folded word unless the block contains it. A query may go on using the block that it
// has, because bytes in the block never change.
func (t *terms) add(word string) {
	h := maphash.String(t.seed, word)
	if _, ok := t.known[h]; ok {
		return
	}
	t.known[h] = struct{}{}
	t.block = append(append(t.block, word...), '\n')
}

// maxTerms bounds the number of terms that may satisfy a wordNeed. If more terms satisfy it, the
// query does not use this need to exclude files.
const maxTerms = 4000

// matchTerms returns the words in a block that satisfy a need. ok is false if there are more than
// maxTerms.
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
// most of a tree, and stemming each occurrence took a quarter of the indexing time. A stemmer is
// not safe for concurrent use.
type stemmer struct{ known map[string][]byte }

// maxStems bounds the number of words that a stemmer remembers. A word takes about 100 bytes.
const maxStems = 20_000

func newStemmer() *stemmer { return &stemmer{known: map[string][]byte{}} }

// stem returns the stem of a folded word. Identifiers that are not English words mostly stay
// unchanged, in files as well as in queries. The result may share memory with the argument and must
// not be modified.
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
