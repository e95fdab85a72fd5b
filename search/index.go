package search

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"cachebro/store"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/index/scorch"
	index "github.com/blevesearch/bleve_index_api"
)

// mappingVersion changes whenever the same content would give other documents. An index with
// another mappingVersion is rebuilt.
const mappingVersion = 6

// Corpus gives an Index access to the store and to the files in the project's source.
type Corpus interface {
	// Since returns at most limit versions after seq, in order.
	Since(seq uint64, limit int) ([]store.Version, error)
	// Changed calls fn with versions of paths at or below a path ("" means all), newest first,
	// until fn returns false. If a path has several versions, at least one of them is passed.
	Changed(below store.Path, fn func(store.Version) bool) error
	// History returns the versions of a path, oldest first.
	History(p store.Path, follow bool) ([]store.Version, error)
	// Seq returns the newest sequence number.
	Seq() uint64
	// Live calls fn with the newest version of every existing path.
	Live(prefix store.Path, fn func(store.Version) error) error
	// LiveAfter is like Live for the paths that sort after a path, in the order of their bytes, and
	// ends with the error that fn returns.
	LiveAfter(after store.Path, fn func(store.Version) error) error
	// Content returns the content of a version.
	Content(store.Hash) ([]byte, error)
	// Current returns the newest version of a path, or false if none is known.
	Current(store.Path) (store.Version, bool, error)
	// Read returns the present content of a file, read from the source and not through the mount,
	// in buf if buf is large enough. It returns ErrTooLarge for a text that is too large for
	// memory.
	Read(p store.Path, buf []byte) ([]byte, error)
	// Secret reports whether a file must never be indexed or shown.
	Secret(store.Path) bool
}

// Options configure an Index. The zero value is usable.
type Options struct {
	Logger *slog.Logger // nil discards messages
	// MaxFile is the size in bytes above which a file is not indexed. Exact queries scan such
	// files. 0 means 2 MiB.
	MaxFile int
	// Workers is the number of workers for verification and indexing. 0 means GOMAXPROCS.
	Workers int
	// BatchBytes is the size of the text in one batch. 0 means 2 MiB. Set it to less on a machine
	// with little memory.
	BatchBytes int64
	// Asked, if not nil, reports whether somebody waits for answers. If so, only one worker
	// indexes.
	Asked func() bool
	// Room, if not nil, reports whether there is disk space for the index to grow. If not, the
	// follower waits, and exact queries read the files that are not indexed.
	Room func() bool
	// Embedder, if not nil, makes vectors, so that ranked queries can also search by meaning. The
	// vectors of files are made in the background.
	Embedder Embedder
}

// table holds the data that the index has about each path.
type table struct {
	corpus Corpus

	mu    sync.RWMutex // guards the fields below; never held during disk access
	files map[store.Path]file
	loose map[store.Path]struct{} // files that are not indexed and so are always candidates
	sums  sums                    // totals over files
	// binary has the files that are not text. The index stores nothing else about them.
	binary map[store.Path]struct{}
	held   map[store.Path]held // files whose newest versions wait to be indexed
	// removed has the deleted files whose documents are still in the index. For these, file.time is
	// the time of the deletion.
	removed map[store.Path]file
	seq     uint64 // every version up to seq is indexed or in held
	ready   bool   // the first index is complete
}

// Index is a project's full-text index. It is safe for concurrent use.
type Index struct {
	*follower
	table

	dir string
	opt Options

	write     sync.Mutex // held by the one writer; guards the next three fields; taken before the table's mu
	idx       bleve.Index
	tries     *retries      // the retries of idx
	persisted chan struct{} // closed when the last batch is on disk; nil if there is none

	// The table's mu guards the following fields too.
	adv   *scorch.Scorch // idx, opened for reading; nil without an index
	terms *terms
	taken map[store.Path]time.Time // when files were indexed; old entries are dropped

	// problem says why the index does not answer. It is nil or "" if the index answers.
	problem atomic.Pointer[string]

	stems    sync.Pool // of *stemmer
	lexicons sync.Pool // of *lexicon

	made, toMake atomic.Int64 // progress of the first index: the number of files done, and of all files; both 0 at other times
	analysed     atomic.Int64 // number of files analysed since Open
	unread       atomic.Int64 // the time, in ns since 1970, until which content reads only from the store

	vectors *vectors // nil without an Embedder
}

// file holds the data that the index has about one path. The table holds files by value, because a
// million pointers to files, and as many to their chunks, doubled the garbage collector's work.
type file struct {
	hash    store.Hash
	size    int64
	seq     uint64
	time    int64 // time of the newest version, ns
	indexed bool  // the chunks are in the index; a file that is not indexed is always a candidate
	binary  bool  // the file is not text
	gen     bool  // the file is generated or minified
	kind    Kind
	chunks  spans
}

// span is the first and last line of a chunk. The table holds spans instead of document ids,
// because the ids for 100,000 files would take some 20 MB.
type span struct{ first, last int32 }

// spans are the spans of a file's chunks, in order. Most files have one span, which needs no
// allocation.
type spans struct {
	one  span // first is 0 if none
	rest []span
}

func (s *spans) add(c span) {
	if s.one.first == 0 {
		s.one = c
		return
	}
	s.rest = append(s.rest, c)
}

func (s *spans) len() int {
	if s.one.first == 0 {
		return 0
	}
	return 1 + len(s.rest)
}

func (s *spans) at(i int) span {
	if i == 0 {
		return s.one
	}
	return s.rest[i-1]
}

// sums are totals over the indexed files. Counting a million files for each status request took a
// tenth of a second.
type sums struct {
	files, chunks int
	bytes         int64
}

// add adds f to the totals, or subtracts it if times is -1.
func (s *sums) add(f *file, times int) {
	if f.indexed {
		s.files += times
		s.chunks += times * f.chunks.len()
		s.bytes += int64(times) * f.size
	}
}

// ErrBinary is what Corpus.Read returns for a large file that is not text.
var ErrBinary = errors.New("the file is binary")

// ErrTooLarge is what Corpus.Read returns for a text too large to read.
var ErrTooLarge = errors.New("the file is too large to be searched")

// errNoRoom means that the index stopped growing, in order to leave disk space for other data.
var errNoRoom = errors.New("there is no disk space for more of the search index")

// beingMade is the reason that an index gives for not answering while it is built for the first
// time.
var beingMade = "it is being built"

// errNoIndex means that the index is closed, or could not be created.
var errNoIndex = errors.New("there is no search index")

// Open opens the index in dir. It creates a missing index, and rebuilds an index that is damaged or
// has another mappingVersion. If no index can be written, for instance on a full disk, exact
// queries scan all files and Start tries again.
func Open(dir string, corpus Corpus, o Options) *Index {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.MaxFile = cmp.Or(o.MaxFile, 2<<20)
	o.BatchBytes = cmp.Or(o.BatchBytes, batchBytes)
	x := &Index{table: table{corpus: corpus}, dir: dir, opt: o}
	x.follower = &follower{x: x, done: make(chan struct{}), poke: make(chan struct{}, 1), grown: make(chan struct{}, 1)}
	x.stems.New = func() any { return newStemmer() }
	x.lexicons.New = func() any { return newLexicon() }
	if err := x.open(); err != nil {
		x.begin("it is being rebuilt: " + err.Error())
		if errors.Is(err, os.ErrNotExist) {
			x.begin(beingMade)
		}
		o.Logger.Info("the search index is rebuilt", "reason", err)
		if err := x.recreate(); err != nil {
			x.begin("it cannot be created: " + err.Error())
			o.Logger.Error("create search index", "err", err)
		}
	}
	if o.Embedder != nil {
		var err error
		x.vectors, err = openVectors(dir+".vectors", o.Embedder.Model())
		if err != nil {
			o.Logger.Error("search uses words only", "err", err)
		}
	}
	return x
}

// begin empties the tables and records why the index does not answer.
func (x *Index) begin(why string) {
	x.problem.Store(&why)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.empty()
}

// empty empties the tables. The caller holds x.mu.
func (x *Index) empty() {
	x.files = map[store.Path]file{}
	x.loose = map[store.Path]struct{}{}
	x.terms = newTerms()
	x.seq = 0
	x.ready = false
	x.sums, x.binary = sums{}, map[store.Path]struct{}{}
	x.removed = map[store.Path]file{}
	x.held, x.taken = map[store.Path]held{}, map[store.Path]time.Time{}
}

// open opens an existing index. bleve may panic if the index is damaged.
func (x *Index) open() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("damaged: %v", p)
		}
	}()
	var v struct{ Mapping int }
	raw, err := os.ReadFile(filepath.Join(x.dir, "cachebro.json"))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, &v); err != nil || v.Mapping != mappingVersion {
		return fmt.Errorf("mapping is %d, want %d", v.Mapping, mappingVersion)
	}
	x.tries = mayRetry(x.bleveDir())
	idx, err := bleve.OpenUsing(x.bleveDir(), settings())
	if err != nil {
		return err
	}
	if err := x.use(idx); err != nil {
		idx.Close()
		return err
	}
	if err := x.load(); err != nil {
		return errors.Join(err, x.drop())
	}
	return nil
}

// recreate deletes the index and creates an empty one.
func (x *Index) recreate() error {
	if err := os.RemoveAll(x.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(x.dir, 0o700); err != nil {
		return err
	}
	m := bleve.NewIndexMapping()
	m.StoreDynamic = false
	m.IndexDynamic = false
	m.DocValuesDynamic = false
	x.tries = mayRetry(x.bleveDir())
	idx, err := bleve.NewUsing(x.bleveDir(), m, scorch.Name, scorch.Name, settings())
	if err != nil {
		return err
	}
	if err := x.use(idx); err != nil {
		idx.Close()
		return err
	}
	mark, _ := json.Marshal(struct{ Mapping int }{mappingVersion})
	return os.WriteFile(filepath.Join(x.dir, "cachebro.json"), mark, 0o600)
}

// settings returns the settings of bleve's index. A batch counts as written as soon as it can be
// searched. If a crash loses the batch, its checkpoint is lost too, and the follower repeats the
// work.
func settings() map[string]any {
	return map[string]any{"bolt_timeout": "1s", "unsafe_batch": true, "numSnapshotsToKeep": 1, "asyncErrorCallbackName": callbackName, "eventCallbackName": callbackName}
}

func (x *Index) bleveDir() string { return filepath.Join(x.dir, "bleve") }

// setLocked enters a file into the table, or removes it if f is nil. The caller holds x.mu.
func (x *table) setLocked(p store.Path, f *file) {
	if was, ok := x.files[p]; ok {
		x.sums.add(&was, -1)
	}
	delete(x.loose, p)
	delete(x.binary, p)
	if f == nil || f.binary {
		delete(x.files, p)
		if f != nil {
			x.binary[p] = struct{}{}
		}
		return
	}
	x.files[p] = *f
	x.sums.add(f, 1)
	if !f.indexed {
		x.loose[p] = struct{}{}
	}
}

func (x *Index) use(idx bleve.Index) error {
	adv, err := idx.Advanced()
	if err != nil {
		return err
	}
	x.idx = idx
	x.mu.Lock()
	x.adv = adv.(*scorch.Scorch) // settings and recreate choose this type; open recovers from a panic
	x.mu.Unlock()
	return nil
}

// reader returns a snapshot of the index, which the caller closes, or errNoIndex.
func (x *Index) reader() (index.IndexReader, error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.adv == nil {
		return nil, errNoIndex
	}
	return x.adv.Reader()
}

// drop closes the index. Queries that hold a snapshot continue.
func (x *Index) drop() error {
	x.mu.Lock()
	x.adv = nil
	x.mu.Unlock()
	if x.idx == nil {
		return nil
	}
	x.tries.end()
	err := x.idx.Close()
	x.idx = nil
	x.tries, x.persisted = nil, nil
	return err
}

// persist waits until bleve has written the last batch to disk, or failed to. Otherwise the files of
// the batch would be analysed again when the index is opened next.
func (x *Index) persist() {
	if x.persisted == nil {
		return
	}
	select {
	case <-x.persisted:
	case <-x.tries.failed:
	}
}

// Close stops the follower, and closes the index once it is on disk.
func (x *Index) Close() error {
	x.follower.end()
	x.write.Lock()
	defer x.write.Unlock()
	x.persist()
	err := x.drop()
	if x.vectors != nil {
		err = errors.Join(err, x.vectors.close())
	}
	return err
}

// Stats are the figures of an index.
type Stats struct {
	Files     int    `json:"files"`
	Indexed   int    `json:"indexed"`
	Chunks    int    `json:"chunks"`
	Words     int    `json:"words"`
	Bytes     int64  `json:"bytes"`      // size of the indexed files
	DiskBytes int64  `json:"disk_bytes"` // size of the index
	Seq       uint64 `json:"seq"`
	Lag       uint64 `json:"lag"`      // number of versions not followed yet, and of files whose newest version is not indexed
	Analysed  int64  `json:"analysed"` // number of files analysed since the daemon's start; a file counts again after each save
	Ready     bool   `json:"ready"`
	Problem   string `json:"problem,omitempty"`
	// Embedded is the number of contents with vectors.
	Embedded int `json:"embedded,omitempty"`
}

// Working reports whether the index has work left that it can do.
func (x *Index) Working() bool {
	if p := x.problem.Load(); p != nil && *p != "" {
		return false
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.files) > 0 && (!x.ready || len(x.held) > 0 || x.corpus.Seq() > x.seq)
}

// Stats returns the figures of the index.
func (x *Index) Stats() Stats {
	x.mu.RLock()
	st := Stats{
		Files: len(x.files), Seq: x.seq, Ready: x.ready, Words: len(x.terms.known), Lag: uint64(len(x.held)),
		Indexed: x.sums.files, Chunks: x.sums.chunks, Bytes: x.sums.bytes,
	}
	x.mu.RUnlock()
	if x.vectors != nil {
		st.Embedded = x.vectors.count()
	}
	if newest := x.corpus.Seq(); newest > st.Seq {
		st.Lag += newest - st.Seq
	}
	st.Analysed = x.analysed.Load()
	if p := x.problem.Load(); p != nil {
		st.Problem = *p
	}
	_ = filepath.WalkDir(x.dir, func(_ string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			if info, err := d.Info(); err == nil {
				st.DiskBytes += info.Size()
			}
		}
		return nil
	})
	return st
}
