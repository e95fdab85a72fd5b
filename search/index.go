package search

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// mappingVersion changes whenever the same content would give other documents;
// an index of another version is rebuilt.
const mappingVersion = 5

// Corpus is where an Index reads from: the store and the project's source.
type Corpus interface {
	// Since returns versions after seq in order, limit at most.
	Since(seq uint64, limit int) ([]store.Version, error)
	// Changed passes versions of what is at or below a path ("": everything), newest
	// first, until fn says false: at least one of each path that has several.
	Changed(below store.Path, fn func(store.Version) bool) error
	// History returns the versions of a path, oldest first.
	History(p store.Path, follow bool) ([]store.Version, error)
	// Seq is the newest sequence number.
	Seq() uint64
	// Live calls fn with the newest version of every existing path.
	Live(prefix store.Path, fn func(store.Version) error) error
	// Content returns the content of a version.
	Content(store.Hash) ([]byte, error)
	// Current returns the newest version of a path; false when none is known.
	Current(store.Path) (store.Version, bool, error)
	// Read returns a file's bytes as they are now on the source, not through
	// the mount, in buf where that has room. ErrTooLarge: a text of which
	// nobody should hold all in memory.
	Read(p store.Path, buf []byte) ([]byte, error)
	// Secret files are never indexed nor shown.
	Secret(store.Path) bool
}

// Options of an Index; the zero value is usable.
type Options struct {
	Logger *slog.Logger // nil: silent
	// MaxFile is the size in bytes above which a file is not indexed (it is
	// still scanned by exact queries); 0: 2 MiB.
	MaxFile int
	// Workers for verification and indexing; 0: GOMAXPROCS.
	Workers int
	// BatchBytes is how much text is taken at once; 0: 2 MiB. Where there is little memory
	// it should be less.
	BatchBytes int64
	// Asked, if not nil, says whether somebody waits for answers at the moment. Then
	// one worker indexes.
	Asked func() bool
	// Room, if not nil, says whether there is disk space for more of the index;
	// without it the follower waits, and queries read what is not indexed.
	Room func() bool
	// Embedder, if not nil, lets ranked queries go by meaning too. Its vectors
	// are made in the background.
	Embedder Embedder
}

// table is what the index knows of each path.
type table struct {
	corpus Corpus

	mu    sync.RWMutex // guards what follows; never held over disk
	files map[store.Path]file
	loose map[store.Path]struct{} // those of them that are not indexed: candidates whatever the index says
	sums  sums                    // of files
	// binary are the files that are no text. The index has nothing of them but that.
	binary map[store.Path]struct{}
	held   map[store.Path]held // files whose newest versions wait
	// removed are deleted files that the index still has; their time is that of their end.
	removed map[store.Path]file
	seq     uint64 // every version up to here is in the index, or held
	ready   bool   // the first index is complete
}

// Index is a project's full-text index. Safe for concurrent use.
type Index struct {
	*follower
	table

	dir string
	opt Options

	write sync.Mutex // one writer at a time; guards idx and tries; taken before the table's mu
	idx   bleve.Index
	tries *retries // of idx

	// The table's mu guards these too.
	adv   index.Index // idx, for reading; nil: there is none
	terms *terms
	taken map[store.Path]time.Time // when files were indexed, for a while

	// problem says why the index does not answer ("" when it does).
	problem atomic.Pointer[string]

	stems    sync.Pool // of *stemmer
	lexicons sync.Pool // of *lexicon

	made, toMake atomic.Int64 // files of the first index; 0: none is being made
	analysed     atomic.Int64 // files that were analysed since Open
	unread       atomic.Int64 // until when content asks the store alone, ns since 1970

	vectors *vectors // nil: no Embedder
}

// file is what the index knows of one path. A table of a million holds them by value:
// with a pointer to each, and one to its chunks, the collector had twice as much to follow.
type file struct {
	hash    store.Hash
	size    int64
	seq     uint64
	time    int64 // ns, of the newest version
	indexed bool  // its chunks are in the index; else it is always a candidate
	binary  bool  // it is no text
	gen     bool  // generated or minified
	kind    Kind
	chunks  spans
}

// span is the first and last line of a chunk: a document id without its path and
// place, which a tree of 100,000 files would hold some 20 MB of.
type span struct{ first, last int32 }

// spans are those of a file's chunks, in order. Most files have one, which takes no memory
// of its own.
type spans struct {
	one  span // its first line is 0 where there is none
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

// sums are those of the indexed files: to count a million for each status took a tenth of
// a second.
type sums struct {
	files, chunks int
	bytes         int64
}

// add counts a file by times.
func (s *sums) add(f *file, times int) {
	if f.indexed {
		s.files += times
		s.chunks += times * f.chunks.len()
		s.bytes += int64(times) * f.size
	}
}

// ErrBinary is what a Corpus says of a file that it does not read because it is large and
// no text.
var ErrBinary = errors.New("the file is binary")

// ErrTooLarge is what a Corpus says of a text that it does not read.
var ErrTooLarge = errors.New("the file is too large to be searched")

// errNoRoom: the index grows no more, so that others can write.
var errNoRoom = errors.New("there is no disk space for more of the search index")

// room is Options.Room.
func (x *Index) room() bool { return x.opt.Room == nil || x.opt.Room() }

// beingMade is why an index does not answer that has never been complete.
var beingMade = "it is being made"

// errNoIndex: closed, or it could not be made.
var errNoIndex = errors.New("there is no search index")

// Open opens the index in dir, creates it when there is none, and rebuilds it
// when it is damaged or of another mapping. Following the version log begins
// with Start. Where no index can be written (a full disk, say), queries scan and Start
// tries again.
func Open(dir string, corpus Corpus, o Options) *Index {
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if o.MaxFile == 0 {
		o.MaxFile = 2 << 20
	}
	if o.BatchBytes == 0 {
		o.BatchBytes = batchBytes
	}
	x := &Index{table: table{corpus: corpus}, dir: dir, opt: o}
	x.follower = newFollower(x)
	x.stems.New = func() any { return newStemmer() }
	x.lexicons.New = func() any { return newLexicon() }
	if err := x.open(); err != nil {
		x.begin("it is being rebuilt: " + err.Error())
		if errors.Is(err, os.ErrNotExist) {
			x.begin(beingMade)
		}
		o.Logger.Info("search index is made anew", "reason", err)
		if err := x.recreate(); err != nil {
			x.begin("it cannot be made: " + err.Error())
			o.Logger.Error("create search index", "err", err)
		}
	}
	if o.Embedder != nil {
		var err error
		x.vectors, err = openVectors(dir+".vectors", o.Embedder.Model())
		if err != nil {
			o.Logger.Error("search goes by words alone", "err", err)
		}
	}
	return x
}

// begin empties the tables and notes why the index does not answer.
func (x *Index) begin(why string) {
	x.problem.Store(&why)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.empty()
}

// empty makes the tables those of an empty index; x.mu is held.
func (x *Index) empty() {
	x.files, x.loose, x.terms, x.seq, x.ready = map[store.Path]file{}, map[store.Path]struct{}{}, newTerms(), 0, false
	x.sums, x.binary = sums{}, map[store.Path]struct{}{}
	x.removed = map[store.Path]file{}
	x.held, x.taken = map[store.Path]held{}, map[store.Path]time.Time{}
}

// open opens what is there. A damaged index can make its library panic.
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

// recreate throws the index away and begins an empty one.
func (x *Index) recreate() error {
	if err := os.RemoveAll(x.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(x.dir, 0o700); err != nil {
		return err
	}
	m := bleve.NewIndexMapping()
	m.StoreDynamic, m.IndexDynamic, m.DocValuesDynamic = false, false, false
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

// settings of the index. A batch counts once it can be searched: what a crash
// takes, the checkpoint (which goes the same way) makes the follower do again.
func settings() map[string]any {
	return map[string]any{"bolt_timeout": "1s", "unsafe_batch": true, "numSnapshotsToKeep": 1, "asyncErrorCallbackName": slowly, "eventCallbackName": slowly}
}

func (x *Index) bleveDir() string { return filepath.Join(x.dir, "bleve") }

// setLocked enters a file into the table, nil takes it out; x.mu is held.
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
	x.adv = adv
	x.mu.Unlock()
	return nil
}

// reader is a snapshot to read from; the caller closes it. errNoIndex: there is
// nothing to read.
func (x *Index) reader() (index.IndexReader, error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.adv == nil {
		return nil, errNoIndex
	}
	return x.adv.Reader()
}

// drop closes the index; queries that hold a snapshot go on.
func (x *Index) drop() error {
	x.mu.Lock()
	x.adv = nil
	x.mu.Unlock()
	if x.idx == nil {
		return nil
	}
	x.tries.end()
	err := x.idx.Close()
	x.idx, x.tries = nil, nil
	return err
}

// Close stops following and closes the index.
func (x *Index) Close() error {
	x.follower.end()
	x.write.Lock()
	defer x.write.Unlock()
	err := x.drop()
	if x.vectors != nil {
		err = errors.Join(err, x.vectors.close())
	}
	return err
}

// Stats of an index.
type Stats struct {
	Files     int    `json:"files"`
	Indexed   int    `json:"indexed"`
	Chunks    int    `json:"chunks"`
	Words     int    `json:"words"`
	Bytes     int64  `json:"bytes"`      // of the indexed files
	DiskBytes int64  `json:"disk_bytes"` // of the index
	Seq       uint64 `json:"seq"`
	Lag       uint64 `json:"lag"`      // versions not yet followed, and files that wait for the end of their saves
	Analysed  int64  `json:"analysed"` // files, since the daemon's start; one that is saved again counts again
	Ready     bool   `json:"ready"`
	Problem   string `json:"problem,omitempty"`
	// Embedded is how many contents have vectors.
	Embedded int `json:"embedded,omitempty"`
}

// Working reports whether the index has something to do that it can do.
func (x *Index) Working() bool {
	if p := x.problem.Load(); p != nil && *p != "" {
		return false
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.files) > 0 && (!x.ready || len(x.held) > 0 || x.corpus.Seq() > x.seq)
}

// Stats counts.
func (x *Index) Stats() Stats {
	x.mu.RLock()
	st := Stats{Files: len(x.files), Seq: x.seq, Ready: x.ready, Words: len(x.terms.known)}
	st.Indexed, st.Chunks, st.Bytes = x.sums.files, x.sums.chunks, x.sums.bytes
	st.Lag = uint64(len(x.held))
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
