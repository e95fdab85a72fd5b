package search

import (
	"crypto/sha256"
	"encoding/json"
	"time"

	"cachebro/store"
	"cachebro/store/leaf/text"

	"github.com/blevesearch/bleve/v2/document"
	index "github.com/blevesearch/bleve_index_api"
)

// searchable reports whether a version is a tracked regular file that may be shown.
func (x *table) searchable(v store.Version) bool {
	const regular = 0o100000
	kind := v.Stat.Mode & 0o170000
	return !v.Deleted() && v.Class == 0 && (kind == regular || kind == 0 && v.Op != store.OpMkdir && v.Op != store.OpSymlink) && !x.corpus.Secret(v.Path)
}

// prepare reads and analyses one file.
func (x *Index) prepare(v store.Version, words *lexicon) (p prepared, err error) {
	p.v = v
	defer func() {
		if p.f != nil && len(p.docs) == 0 { // entered in the table but not indexed
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
		p.f = &file{size: v.Stat.Size, seq: v.Seq, time: v.Time, kind: KindOf(string(v.Path))} // exact queries always scan it
		return p, nil
	}
	content, err := x.content(v)
	if err != nil {
		x.opt.Logger.Warn("search index: the content is not available", "path", v.Path, "err", err)
		p.f = &file{size: v.Stat.Size, seq: v.Seq, time: v.Time, kind: KindOf(string(v.Path))}
		return p, nil
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

// content returns the content of a version. It reads the file if that still has it, because the
// store would unpack a whole block for each small content. If reading takes long (a dead mount, a
// hung disk), it uses only the store for the next minute.
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

// chunkID returns the document id of a file's chunk.
func (f *file) chunkID(p store.Path, i int) string {
	c := f.chunks.at(i)
	return chunkID(string(p), Chunk{First: int(c.first), Last: int(c.last)}, i, f.chunks.len())
}

func (f *file) record() document.Field {
	r := fileRecord{Hash: f.hash[:], Gen: f.gen, Indexed: f.indexed, Binary: f.binary}
	for i := range f.chunks.len() {
		r.Chunks = append(r.Chunks, f.chunkID("", i)[1:])
	}
	raw, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings and bytes always encode
	}
	return document.NewTextFieldWithIndexingOptions(fieldRecord, nil, raw, index.StoreField)
}
