package search

import (
	"crypto/sha256"
	"encoding/json"
	"runtime"
	"time"

	"cachebro/store"
	"cachebro/store/leaf/text"

	"github.com/blevesearch/bleve/v2/document"
	index "github.com/blevesearch/bleve_index_api"
)

// The fields. A file has one document for its words and one for each chunk. The document for words
// only says which words occur in the file. The terms of a chunk's document are counted for ranking.
// Words and whole identifiers are stored by file instead of by chunk. This reduced the index of the
// Go source tree from 138% of the size of the corpus to well under 50%.
const (
	fieldWord   = "word" // of a file: folded words as they appear in the text
	fieldPart   = "part" // of a chunk: parts of identifiers and words, stemmed
	fieldRecord = "rec"  // of a file: stored; the file's entry in the file table
	fieldSym    = "sym"  // of a chunk: like fieldPart, for the names defined in the chunk
)

// termField is a field whose terms are counted. bleve's own text field would first make a token for
// each occurrence of a term.
type termField struct {
	name    string
	options index.FieldIndexingOptions
	length  int
	terms   index.TokenFrequencies
}

func newField(name string, options index.FieldIndexingOptions, terms int) *termField {
	return &termField{name: name, options: options, terms: make(index.TokenFrequencies, terms)}
}

// Name and the following methods implement index.Field.
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

// stemCounts counts the terms of a text that ranking compares (see stemmedParts).
func stemCounts(text []byte, stems *stemmer) map[string]int {
	counts := map[string]int{}
	var buf []byte
	eachWord(text, func(start, end int) {
		buf = stemmedParts(text[start:end], stems, buf, func(part []byte) { counts[string(part)]++ })
	})
	return counts
}

// stemmedParts calls fn with the terms of a word that ranking compares: the stemmed parts of an
// identifier, without numbers. Whole identifiers are not included, because ranked queries find them
// by their parts, and exact queries by the word field. stemmedParts uses buf as scratch memory and
// returns it. fn must not keep its argument.
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

// eachTerm calls fn with the parts of an identifier, or with the whole identifier if it has only
// one part. For a short name with a number (base64, utf8), eachTerm also calls fn with the whole
// name, because the parts do not distinguish such names.
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

// maxPart is the length in bytes of the longest part that ranking uses. Longer parts are usually
// encoded data.
const maxPart = 32

func (x *Index) workers() int {
	if x.opt.Workers > 0 {
		return x.opt.Workers
	}
	return runtime.GOMAXPROCS(0)
}

// searchable reports whether a version is a tracked regular file that may be shown.
func (x *table) searchable(v store.Version) bool {
	return v.TrackedFile() && !x.corpus.Secret(v.Path)
}

// prepare reads and analyses one file.
func (x *Index) prepare(v store.Version, words *lexicon) (p prepared, err error) {
	p.path = v.Path
	defer func() {
		if p.f != nil && len(p.docs) == 0 { // the file is in the table but not indexed
			p.docs = []*document.Document{document.NewDocument(fileID(v.Path))}
			p.docs[0].AddField(p.f.record())
		}
	}()
	if !x.searchable(v) {
		return p, nil
	}
	if v.Blob == (store.Hash{}) {
		if v.NoContent == "" && v.Stat.Size == 0 {
			return p, nil // an empty file, or not a file
		}
		p.f = fileOf(v) // a file that is not indexed is always scanned by exact queries
		return p, nil
	}
	content := words.content
	if words.hash != v.Blob {
		content, err = x.content(v)
		if err != nil {
			x.opt.Logger.Warn("search index: the content is not available", "path", v.Path, "err", err)
			p.f = fileOf(v)
			return p, nil
		}
		if len(content) <= x.opt.MaxFile {
			words.hash, words.content = v.Blob, content
		}
	}
	content, ok := text.Shown(content)
	if !ok {
		p.f = &file{hash: v.Blob, seq: v.Seq, binary: true}
		return p, nil
	}
	p.f = &file{hash: v.Blob, size: int64(len(content)), seq: v.Seq, time: v.Time, kind: KindOf(string(v.Path)), gen: generated(content)}
	if len(content) > x.opt.MaxFile || len(content) == 0 {
		return p, nil
	}
	p.docs = x.documents(v.Path, p.f, content, words)
	p.f.indexed = true
	p.docs[0].AddField(p.f.record())
	return p, nil
}

// content returns the content of a version. It reads the file if the file still has that content,
// because the store would unpack a whole block for each small content. If reading takes long
// because of a dead mount or a hung disk, content uses only the store for the next minute.
func (x *Index) content(v store.Version) ([]byte, error) {
	began := time.Now()
	if v.Stat.Size <= int64(x.opt.MaxFile) && began.UnixNano() >= x.unread.Load() {
		b, err := x.corpus.Read(v.Path, nil)
		if err == nil && sha256.Sum256(b) == v.Blob {
			return b, nil
		}
		if time.Since(began) > time.Second {
			x.unread.Store(time.Now().Add(time.Minute).UnixNano())
		}
	}
	return x.corpus.Content(v.Blob)
}

func (f *file) record() document.Field {
	r := fileRecord{Hash: f.hash[:], Gen: f.gen, Indexed: f.indexed, Binary: f.binary}
	for i := range f.chunks.len() {
		c := f.chunks.at(i)
		r.Chunks = append(r.Chunks, [2]int32{c.first, c.last})
	}
	raw, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings and byte slices can always be encoded
	}
	return document.NewTextFieldWithIndexingOptions(fieldRecord, nil, raw, index.StoreField)
}
