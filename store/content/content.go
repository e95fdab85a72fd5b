package content

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"cachebro/store/db"
	"cachebro/store/leaf/cache"
	"cachebro/store/space"

	badger "github.com/dgraph-io/badger/v4"
)

// Hash is the SHA-256 of a content. The zero Hash means that there is no content.
type Hash [32]byte

// The errors of this package, which also returns errors of db and space.
var (
	// ErrPruned means that the content is not stored. Retention or a purge dropped it, or it was
	// never stored.
	ErrPruned = errors.New("the content is no longer stored")
	// ErrNoBase means that the store lacks the content that bytes were appended to.
	ErrNoBase = errors.New("the beginning of an appended file is not known")
	// ErrTooLarge means that the content is larger than Options.MaxBlob.
	ErrTooLarge = errors.New("content too large")
)

// Options configure a Store. All fields except Siblings must be set.
type Options struct {
	MaxBlob  int64 // the largest content in bytes
	Now      func() time.Time
	Log      *slog.Logger
	ReadOnly bool
	// Siblings, if not nil, lists the stores of other worktrees of the same repository. This store
	// may share their pack files (see Adopt).
	Siblings func() []Sibling
}

// Log holds what this package needs from the log, whose versions refer to the contents.
type Log struct {
	// Write runs fn with a batch while it holds the writer's lock. Then it commits the batch
	// together with its counts.
	Write func(fn func(*Batch) error) error
	// Uses calls fn with the content and path of each version, oldest first, until fn returns
	// false.
	Uses func(fn func(h Hash, path string) bool) error
}

// Store stores contents. All methods may be called concurrently.
type Store struct {
	// Mutex guards lastFrame and all pack files. Each operation that drops or moves contents holds
	// it, so only one collection, fsck, purge or adoption runs at a time. It is taken before the
	// writer's lock.
	sync.Mutex
	lastFrame uint64 // the largest number ever given to a frame

	dir  string
	opt  Options
	log  Log
	db   *db.DB
	room *space.Room

	fresh map[Hash]bool // contents referred to since a sweep began; nil: no sweep is running; guarded by the writer's lock

	contents *cache.Cache[Hash, []byte]
	frames   *cache.Cache[uint64, []byte]
	offers   atomic.Pointer[offers] // nil: none; to change it, hold both Mutex and the writer's lock
	codecs   codecPool
}

// New returns a Store for the contents of the history in dir.
func New(dir string, d *db.DB, room *space.Room, log Log, o Options) *Store {
	return &Store{
		dir: dir, opt: o, log: log, db: d, room: room,
		contents: cache.New[Hash, []byte](6<<20, func(b []byte) int { return len(b) + 64 }),
		frames:   cache.New[uint64, []byte](6*frameSize, func(b []byte) int { return len(b) }),
	}
}

// Open removes the unfinished files of a killed process. It must be the first method called.
func (s *Store) Open() error { return s.dropPacks() }

// Close frees memory. No method may be called after it.
func (s *Store) Close() { s.codecs.close() }

// Forget empties the caches, so that the next reads go to the disk.
func (s *Store) Forget() {
	s.contents.Clear()
	s.frames.Clear()
}

// Has reports whether the content is stored.
func (s *Store) Has(h Hash) bool {
	if _, ok := s.contents.Get(h); ok {
		return true
	}
	found := false
	s.db.View(func(txn *badger.Txn) error {
		_, err := txn.Get(keyBlob(h))
		found = err == nil
		return nil
	})
	return found
}

// Get returns the bytes whose SHA-256 is h; the caller must not change them. It returns
// ErrPruned if they are not stored, and db.ErrDamaged if the stored bytes have another hash.
func (s *Store) Get(h Hash) ([]byte, error) {
	if h == (Hash{}) {
		return nil, fmt.Errorf("%w: the version has no content", ErrPruned)
	}
	if b, ok := s.contents.Get(h); ok {
		return b, nil
	}
	var out []byte
	read := func(txn *badger.Txn) (err error) {
		out, err = s.contentIn(txn, h)
		return err
	}
	err := s.db.View(read)
	if errors.Is(err, db.ErrDamaged) {
		// A repack may have moved the content and removed the frame that this snapshot refers to.
		err = s.db.View(read)
	}
	if err != nil {
		return nil, err
	}
	s.contents.Put(h, out)
	return out, nil
}

// contentIn reads and verifies a content within a transaction.
func (s *Store) contentIn(txn *badger.Txn, h Hash) ([]byte, error) {
	return s.contentOf(txn, h, nil)
}

// contentOf is like contentIn, but takes the value of the content's b key, or nil to read it.
func (s *Store) contentOf(txn *badger.Txn, h Hash, val []byte) (b []byte, err error) {
	if b, ok := s.contents.Get(h); ok {
		return b, nil
	}
	if val != nil {
		b, err = s.build(txn, h, val, 0)
	} else {
		b, err = s.assemble(txn, h, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("content %x: %w", h[:6], err)
	}
	if sha256.Sum256(b) != h {
		return nil, fmt.Errorf("content %x: %w: other bytes than were stored", h[:6], db.ErrDamaged)
	}
	return b, nil
}

// Place is where a content is stored: in a frame, or under its own hash. Reading thousands of
// contents is fastest in the order of their places. One look-up decodes a block of dozens of keys,
// and reading one content of a frame decodes the whole frame.
type Place struct {
	Frame uint64 // 0: none
	At    int64
	Hash  Hash
}

// ComparePlaces orders places so that reading in this order is fastest.
func ComparePlaces(a, b Place) int {
	return cmp.Or(cmp.Compare(a.Frame, b.Frame), cmp.Compare(a.At, b.At), bytes.Compare(a.Hash[:], b.Hash[:]))
}

// Places calls fn with the place of each content. kept is false if the content is not stored or
// unreadable. hs must be sorted. For many contents, one walk over the headers takes a quarter of
// the time of single look-ups, because each look-up decompresses a block of 50 headers.
func (s *Store) Places(hs []Hash, fn func(p Place, kept bool)) {
	s.db.View(func(txn *badger.Txn) error {
		w := db.NewWalk(txn, []byte{kBlob})
		defer w.It.Close()
		for i, h := range hs {
			var hd header
			var err error
			key := keyBlob(h)
			if !w.Pays(i) {
				hd, err = readHeader(txn, h)
			} else if w.To(key); w.It.ValidForPrefix(key) {
				hd, err = headerIn(w.It.Item())
			} else {
				err = ErrPruned
			}
			p := Place{Hash: h}
			if err == nil && hd.enc == encFrame {
				p.Frame, p.At = hd.frame, hd.at
			}
			fn(p, err == nil)
		}
		return nil
	})
}

// InSnapshot reports whether a snapshot of the database has a content.
func InSnapshot(txn *badger.Txn, h Hash) (bool, error) {
	_, err := txn.Get(keyBlob(h))
	if errors.Is(err, badger.ErrKeyNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Sizes returns the stored size of each content in bytes, keyed by Short.
func (s *Store) Sizes() (map[uint64]int64, error) {
	sizes := map[uint64]int64{}
	err := s.eachBlob(func(h Hash, hd header) error { sizes[Short(h)] = hd.stored; return nil })
	return sizes, err
}

// Count counts the contents that a transaction sees.
func Count(txn *badger.Txn) (n Counts, err error) {
	b := Batch{}
	err = eachBlob(txn, func(_ Hash, hd header) error { b.count(hd); return nil })
	return b.Counts, err
}
