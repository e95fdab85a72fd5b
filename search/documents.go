package search

import (
	"runtime"

	index "github.com/blevesearch/bleve_index_api"
)

// The fields. A file has one document with its words, which only say that the words
// occur, and one document for each chunk, whose terms are counted for ranking.
// Keeping words by file instead of by chunk, and whole identifiers only there,
// reduced the index of the Go source tree from 1.38 to well under half of the corpus.
const (
	fieldWord   = "word" // of a file: folded words as they stand
	fieldPart   = "part" // of a chunk: parts of identifiers and words, stemmed
	fieldRecord = "rec"  // of a file: stored, what the file table holds
	fieldSym    = "sym"  // of a chunk: the same of the names defined in it
)

// termField is a field whose terms are counted already: bleve's own text field
// would make a token for each occurrence first.
type termField struct {
	name    string
	options index.FieldIndexingOptions
	length  int
	terms   index.TokenFrequencies
	buf     []byte // scratch
}

func newField(name string, options index.FieldIndexingOptions, terms int) *termField {
	return &termField{name: name, options: options, terms: make(index.TokenFrequencies, terms)}
}

// Name and the rest implement index.Field.
func (f *termField) Name() string                                     { return f.name }
func (f *termField) Value() []byte                                    { return nil }
func (f *termField) ArrayPositions() []uint64                         { return nil }
func (f *termField) EncodedFieldType() byte                           { return 't' }
func (f *termField) Analyze()                                         {}
func (f *termField) Options() index.FieldIndexingOptions              { return f.options }
func (f *termField) AnalyzedLength() int                              { return f.length }
func (f *termField) AnalyzedTokenFrequencies() index.TokenFrequencies { return f.terms }
func (f *termField) NumPlainTextBytes() uint64                        { return uint64(f.length) }
func (f *termField) Size() int                                        { return 64 * len(f.terms) } // about; nobody decides by it

// takeParts adds what ranking compares.
func (f *termField) takeParts(text []byte, stems *stemmer) {
	eachWord(text, func(start, end int) {
		f.buf = stemmedParts(text[start:end], stems, f.buf, func(part []byte) {
			f.length++
			if t, ok := f.terms[string(part)]; ok {
				t.SetFrequency(t.Frequency() + 1)
				return
			}
			t := new(index.TokenFreq)
			t.SetFrequency(1)
			f.terms[string(part)] = t
		})
	})
}

// stemmedParts calls fn with what ranking compares of a word: the parts of an
// identifier, stemmed. A whole identifier is found by its adjacent parts, and exactly
// by the word field, so it is not entered again; neither are numbers. It needs a
// buffer and returns it; fn must not keep its argument.
func stemmedParts(word []byte, stems *stemmer, buf []byte, fn func([]byte)) []byte {
	if len(word) > maxWord {
		return buf
	}
	eachTerm(word, func(part []byte) {
		if len(part) < 2 || len(part) > maxPart || '0' <= part[0] && part[0] <= '9' {
			return
		}
		buf = appendFolded(buf[:0], part)
		fn(stems.stem(buf))
	})
	return buf
}

// eachTerm calls fn with the parts of an identifier, or with all of it when it is one
// part. For a short name with a number in it (base64, utf8) it passes the whole name
// too, because the parts would not tell such names apart.
func eachTerm(word []byte, fn func([]byte)) {
	parts, digits := 0, false
	eachPart(word, func(part []byte) {
		parts++
		digits = digits || '0' <= part[0] && part[0] <= '9'
		fn(part)
	})
	if parts == 0 || parts == 2 && digits && len(word) <= 8 {
		fn(word)
	}
}

// maxPart is the longest part that is ranked by; longer ones are encoded data.
const maxPart = 32

func (x *Index) workers() int {
	if x.opt.Workers > 0 {
		return x.opt.Workers
	}
	return runtime.GOMAXPROCS(0)
}
