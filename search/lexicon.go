package search

import (
	"bytes"

	"cachebro/store"

	"github.com/blevesearch/bleve/v2/document"
	index "github.com/blevesearch/bleve_index_api"
)

// lexicon makes the fields of documents. It remembers the terms of each word. The folded form of a
// word is the term by which exact queries find the files that contain it, and the stems of its
// parts are the terms that ranking counts. A few thousand words make up most of a tree, and
// splitting each occurrence again took a third of the indexing time. A lexicon is not safe for
// concurrent use.
type lexicon struct {
	stems *stemmer
	words map[string]*lexWord
	terms map[string]*lexTerm

	mark   uint64     // number of the current file or field; an entry with the same mark is already counted
	inFile []*lexTerm // the file's words
	inPart []*lexTerm // the terms of the field being made
	length int        // number of words in that field
	buf    []byte

	// content is the content that was read last, and hash is its hash. The names of a file with
	// several names usually follow each other.
	hash    store.Hash
	content []byte
}

// lexWord holds the terms of a word as it appears in a text.
type lexWord struct {
	mark   uint64
	folded []*lexTerm
	parts  []*lexTerm // a term may occur twice
}

// lexTerm is one term of the index. It may be a word of the file, and a part of a word in the field
// being made.
type lexTerm struct {
	text     string
	wordMark uint64
	partMark uint64
	count    int    // count in the field whose number is partMark
	dict     *terms // the dictionary that contains the term
}

// maxLexicon bounds the number of words in a lexicon. A word takes about 250 bytes.
const maxLexicon = 20_000

// frequencies holds a TokenFreq for each small count. The terms of all fields share these values,
// which are never modified. A separate TokenFreq for each term of each chunk took 16 MB while an
// index was made.
var frequencies = func() (fs [256]index.TokenFreq) {
	for n := range fs {
		fs[n].SetFrequency(n)
	}
	return fs
}()

func frequency(n int) *index.TokenFreq {
	if n < len(frequencies) {
		return &frequencies[n]
	}
	t := new(index.TokenFreq)
	t.SetFrequency(n)
	return t
}

func newLexicon() *lexicon {
	return &lexicon{stems: newStemmer(), words: map[string]*lexWord{}, terms: map[string]*lexTerm{}}
}

// documents makes the documents of one file and adds its words to the dictionary.
func (x *Index) documents(p store.Path, f *file, content []byte, l *lexicon) []*document.Document {
	if len(l.words) > maxLexicon || len(l.terms) > maxLexicon {
		clear(l.words)
		clear(l.terms)
	}
	l.mark++
	thisFile := l.mark
	clear(l.inFile)
	l.inFile = l.inFile[:0]
	cut := chunks(f.kind, content, symbolsOf(string(p), f.kind, content))
	docs := make([]*document.Document, 1, len(cut)+1)
	if len(cut) > 1 {
		f.chunks.rest = make([]span, 0, len(cut)-1)
	}
	for _, c := range cut {
		lines := span{int32(c.First), int32(c.Last)}
		f.chunks.add(lines)
		d := document.NewDocument(chunkID(p, lines))
		l.begin()
		text := content[c.Start:c.End]
		eachWord(text, func(start, end int) {
			w := l.word(text[start:end])
			if w.mark != thisFile {
				w.mark = thisFile
				for _, t := range w.folded {
					if t.wordMark != thisFile {
						t.wordMark = thisFile
						l.inFile = append(l.inFile, t)
					}
				}
			}
			l.count(w)
		})
		d.AddField(l.field(fieldPart))
		if len(c.Symbols) > 0 {
			l.begin()
			for _, s := range c.Symbols {
				name := []byte(s.Name)
				eachWord(name, func(start, end int) { l.count(l.word(name[start:end])) })
			}
			d.AddField(l.field(fieldSym))
		}
		docs = append(docs, d)
	}
	words := newField(fieldWord, index.IndexField|index.SkipFreqNorm, len(l.inFile))
	words.length = len(l.inFile)
	for _, t := range l.inFile {
		words.terms[t.text] = frequency(1)
	}
	x.know(l.inFile)
	docs[0] = document.NewDocument(fileID(p))
	docs[0].AddField(words)
	return docs
}

// know adds words to the dictionary, unless it has them.
func (x *Index) know(words []*lexTerm) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, t := range words {
		if t.dict != x.terms {
			t.dict = x.terms
			x.terms.add(t.text)
		}
	}
}

// begin begins a new field of counted terms.
func (l *lexicon) begin() {
	l.mark++
	l.length = 0
	clear(l.inPart)
	l.inPart = l.inPart[:0]
}

// count counts one occurrence of a word.
func (l *lexicon) count(w *lexWord) {
	l.length += len(w.parts)
	for _, t := range w.parts {
		if t.partMark == l.mark {
			t.count++
			continue
		}
		t.partMark, t.count = l.mark, 1
		l.inPart = append(l.inPart, t)
	}
}

// field returns the field with the terms counted since begin.
func (l *lexicon) field(name string) *termField {
	f := newField(name, index.IndexField, len(l.inPart))
	f.length = l.length
	for _, t := range l.inPart {
		f.terms[t.text] = frequency(t.count)
	}
	return f
}

// word returns the terms of a word as it appears in a text.
func (l *lexicon) word(text []byte) *lexWord {
	if w, ok := l.words[string(text)]; ok {
		return w
	}
	w := &lexWord{}
	l.buf = appendFolded(l.buf[:0], text)
	key := ""
	if bytes.Equal(l.buf, text) && len(text) <= maxWord { // usually folding changes nothing; then one string is both the key and the term
		t := l.term(text)
		w.folded, key = []*lexTerm{t}, t.text
	} else {
		key = string(text)
		pieces(l.buf, func(piece []byte) { w.folded = append(w.folded, l.term(piece)) })
	}
	l.buf = stemmedParts(text, l.stems, l.buf, func(part []byte) { w.parts = append(w.parts, l.term(part)) })
	l.words[key] = w
	return w
}

func (l *lexicon) term(text []byte) *lexTerm {
	if t, ok := l.terms[string(text)]; ok {
		return t
	}
	t := &lexTerm{text: string(text)}
	l.terms[t.text] = t
	return t
}
