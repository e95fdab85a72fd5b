package search

import (
	"runtime"

	index "github.com/blevesearch/bleve_index_api"
)

// The fields. A file has one document for its words, which only says that they occur, and one for
// each chunk, whose terms are counted for ranking. Words by file instead of by chunk, and whole
// identifiers only there, reduced the Go source tree's index from 1.38 times the corpus to well
// under half of it.
const (
	fieldWord   = "word" // of a file: folded words as they appear in the text
	fieldPart   = "part" // of a chunk: parts of identifiers and words, stemmed
	fieldRecord = "rec"  // of a file: stored, its entry in the file table
	fieldSym    = "sym"  // of a chunk: like fieldPart, of the names defined in it
)

// termField is a field of counted terms. bleve's own text field would first make a token for each
// occurrence.
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
func (f *termField) Size() int                                        { return 64 * len(f.terms) } // approximate; nothing depends on it

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

// stemmedParts calls fn with the terms of a word that ranking compares: the stemmed parts of an
// identifier, without numbers. Whole identifiers are not included, because ranked queries find them
// by their parts, and exact queries by the word field. It uses buf as scratch memory and returns
// it. fn must not keep its argument.
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

// eachTerm calls fn with the parts of an identifier, or with the whole if it has only one. For a
// short name with a number (base64, utf8) it passes the whole name too, because the parts do not
// distinguish such names.
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

// maxPart is the length in bytes of the longest part that ranking uses. Longer ones are encoded
// data.
const maxPart = 32

func (x *Index) workers() int {
	if x.opt.Workers > 0 {
		return x.opt.Workers
	}
	return runtime.GOMAXPROCS(0)
}
