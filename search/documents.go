package search

import (
	"runtime"

	"cachebro/store"

	"github.com/blevesearch/bleve/v2/document"
	index "github.com/blevesearch/bleve_index_api"
)

// The fields. A file has one document with its words, which only say that they
// are there; and one for each chunk, whose terms are counted for ranking. Words
// by file rather than by chunk, and whole identifiers only there, took the index
// of the Go source tree from 1.38 to well under half of the corpus.
const (
	fieldWord   = "word" // of a file: folded words as they stand
	fieldPart   = "part" // of a chunk: parts of identifiers and words, stemmed
	fieldRecord = "rec"  // of a file: stored, what the file table holds
	fieldSym    = "sym"  // of a chunk: the same of the names defined in it
)

// documents makes the documents of one file and enters its words into the
// dictionary.
func (x *Index) documents(p store.Path, f *file, content []byte, stems *stemmer) []*document.Document {
	cut := chunks(f.kind, content, symbolsOf(string(p), f.kind, content))
	docs := make([]*document.Document, 0, len(cut)+1)
	words := newField(fieldWord, index.IndexField|index.SkipFreqNorm)
	words.takeWords(content)
	x.mu.Lock()
	for w := range words.terms {
		x.terms.add(w)
	}
	x.mu.Unlock()
	whole := document.NewDocument(fileID(p))
	whole.AddField(words)
	docs = append(docs, whole)
	for i, c := range cut {
		d := document.NewDocument(chunkID(string(p), c, i, len(cut)))
		parts := newField(fieldPart, index.IndexField)
		parts.takeParts(content[c.Start:c.End], stems)
		d.AddField(parts)
		if len(c.Symbols) > 0 {
			names := newField(fieldSym, index.IndexField)
			for _, s := range c.Symbols {
				names.takeParts([]byte(s.Name), stems)
			}
			d.AddField(names)
		}
		docs = append(docs, d)
	}
	return docs
}

// termField is a field whose terms are counted already: bleve's own text field
// would make a token for each occurrence first.
type termField struct {
	name    string
	options index.FieldIndexingOptions
	length  int
	terms   index.TokenFrequencies
	buf     []byte // scratch
}

func newField(name string, options index.FieldIndexingOptions) *termField {
	return &termField{name: name, options: options, terms: index.TokenFrequencies{}}
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
func (f *termField) Size() int                                        { return f.terms.Size() }

func (f *termField) add(term []byte) {
	f.length++
	if t, ok := f.terms[string(term)]; ok {
		t.SetFrequency(t.Frequency() + 1)
		return
	}
	key := string(term)
	t := &index.TokenFreq{Term: []byte(key)}
	t.SetFrequency(1)
	f.terms[key] = t
}

// takeWords adds the folded words of a text, once each.
func (f *termField) takeWords(text []byte) {
	eachWord(text, func(start, end int) {
		f.buf = appendFolded(f.buf[:0], text[start:end])
		pieces(f.buf, func(w []byte) {
			if _, ok := f.terms[string(w)]; !ok {
				f.add(w)
			}
		})
	})
}

// takeParts adds what ranking compares: the parts of each identifier, stemmed.
// A whole identifier is found by its parts beside each other, and exactly by
// the word field, so it is not entered again; nor are numbers.
func (f *termField) takeParts(text []byte, stems *stemmer) {
	emit := func(part []byte) {
		if len(part) < 2 || len(part) > maxPart || '0' <= part[0] && part[0] <= '9' {
			return
		}
		f.buf = appendFolded(f.buf[:0], part)
		f.add(stems.stem(f.buf))
	}
	eachWord(text, func(start, end int) {
		word := text[start:end]
		if len(word) > maxWord {
			return
		}
		eachTerm(word, emit)
	})
}

// eachTerm calls fn with the parts of an identifier, or with all of it when it
// is one part; and with all of it too when it is a short name with a number in
// it (base64, utf8), which its parts would not tell apart.
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
