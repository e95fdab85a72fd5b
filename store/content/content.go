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

// Hash is the SHA-256 of a content. The zero Hash means: no content.
type Hash [32]byte

// The errors of contents; those of db and space are others.
var (
	// ErrPruned: the content was here once and has been dropped by retention
	// or purge, or never was.
	ErrPruned = errors.New("the content is no longer kept")
	// ErrNoBase: what an append goes on from is not known here.
	ErrNoBase = errors.New("the beginning of an appended file is not known")
	// ErrTooLarge: content above Options.MaxBlob.
	ErrTooLarge = errors.New("content too large")
)

// Options of the contents. All are set but Siblings.
type Options struct {
	MaxBlob  int64 // the largest content in bytes
	Now      func() time.Time
	Log      *slog.Logger
	ReadOnly bool
	// Siblings, if not nil, names the stores of worktrees of the same
	// repository, whose pack files this store may share (see Adopt).
	Siblings func() []Sibling
}

// Log is what the contents ask of the log that refers to them.
type Log struct {
	// Write runs fn as one step of the writer: it takes the writer's lock, and what
	// fn leaves in the batch is committed with its counts.
	Write func(fn func(*Batch) error) error
	// Uses passes, oldest first, the contents that versions hold, with their paths,
	// until fn says false.
	Uses func(fn func(h Hash, path string) bool) error
}

// Store keeps contents. All methods may be called concurrently.
type Store struct {
	// Mutex is held by whoever drops or moves contents, or needs that nobody does:
	// one collection, fsck, purge or adoption at a time. It guards lastFrame and all
	// pack files. It is taken before the lock of the writer.
	sync.Mutex
	lastFrame uint64 // the largest number given to a frame

	dir  string
	opt  Options
	log  Log
	db   *db.DB
	room *space.Room

	fresh map[Hash]bool // referred to since a sweep began, nil: none runs; under the lock of the writer

	contents *cache.Cache[Hash, []byte]
	frames   *cache.Cache[uint64, []byte]
	offers   atomic.Pointer[offers] // changed under Mutex and the lock of the writer; nil: none
	codecs   codecPool
}

// New returns the contents of the store in dir.
func New(dir string, d *db.DB, room *space.Room, log Log, o Options) *Store {
	return &Store{
		dir: dir, opt: o, log: log, db: d, room: room,
		contents: cache.New[Hash, []byte](6<<20, func(b []byte) int { return len(b) + 64 }),
		frames:   cache.New[uint64, []byte](6*frameSize, func(b []byte) int { return len(b) }),
	}
}

// Open removes what a killed process left half-made. Nobody else is there yet.
func (s *Store) Open() error { return s.dropPacks() }

// Close gives memory back; nobody reads any more.
func (s *Store) Close() { s.codecs.close() }

// Forget empties the caches: what is read next comes from the disk.
func (s *Store) Forget() {
	s.contents.Clear()
	s.frames.Clear()
}

// Has reports whether the content is kept.
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

// Get returns the bytes whose SHA-256 is h; the caller must not change
// them. Errors: ErrPruned when they are not kept, db.ErrDamaged when what is kept
// does not have this hash.
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
		// Perhaps only moved: a repack took away what the snapshot saw.
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

// contentOf is contentIn; val is what is under the content's key, nil: is to be read.
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

// Place says where a content lies: in a frame, or by itself under its hash. Whoever
// reads thousands of contents reads them in this order, because one look-up decodes a
// block of dozens of keys, and one content of a frame decodes the whole frame.
type Place struct {
	Frame uint64 // 0: none
	At    int64
	Hash  Hash
}

// ComparePlaces orders places as they are read best.
func ComparePlaces(a, b Place) int {
	return cmp.Or(cmp.Compare(a.Frame, b.Frame), cmp.Compare(a.At, b.At), bytes.Compare(a.Hash[:], b.Hash[:]))
}

// Place finds a content; false if in doubt, like Has.
func (s *Store) Place(h Hash) (p Place, kept bool) {
	p.Hash = h
	s.db.View(func(txn *badger.Txn) error {
		hd, err := readHeader(txn, h)
		kept = err == nil
		if kept && hd.enc == encFrame {
			p.Frame, p.At = hd.frame, hd.at
		}
		return nil
	})
	return p, kept
}

// Kept reports whether the content is kept, as a snapshot sees it.
func Kept(txn *badger.Txn, h Hash) (bool, error) {
	_, err := txn.Get(keyBlob(h))
	if errors.Is(err, badger.ErrKeyNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Sizes maps contents, by Short, to the bytes that they take.
func (s *Store) Sizes() (map[uint64]int64, error) {
	sizes := map[uint64]int64{}
	err := s.eachBlob(func(h Hash, hd header) error { sizes[Short(h)] = hd.stored; return nil })
	return sizes, err
}

// Count counts the contents anew, as the transaction sees them.
func Count(txn *badger.Txn) (n Counts, err error) {
	b := Batch{}
	err = eachBlob(txn, func(_ Hash, hd header) error { b.count(hd); return nil })
	return b.Counts, err
}
