package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	badger "github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"golang.org/x/sys/unix"
)

// Store is an open store. All methods may be called concurrently.
type Store struct {
	dir  string
	opt  Options
	db   *badger.DB
	room *room

	// tidyMu serialises retention, fsck, purge and adoption; it guards tidied,
	// packed, shrunken and lastFrame, and all pack files. It is taken before
	// writeMu.
	tidyMu    sync.Mutex
	tidied    time.Time
	packed    time.Time // when the last repack began
	shrunken  shrunken
	lastFrame uint64 // the largest number given to a frame

	// writeMu guards next, nodes, pinned, fresh and wrote, and serialises appends,
	// plans and the steps of a collection. Order: writeMu before gate, and
	// both before any cache lock.
	writeMu sync.Mutex
	next    State
	nodes   nodeTable
	pinned  func(Hash) bool
	fresh   map[Hash]bool // contents referred to since a sweep began, nil: none runs
	wrote   time.Time     // when noteWrote did something last

	// gate holds small writes (update) off while Badger flushes.
	gate sync.RWMutex

	state    atomic.Pointer[State] // published; immutable
	closed   atomic.Bool
	users    atomic.Int64  // calls inside Badger; Close waits for them
	left     chan struct{} // capacity 1, never closed: the last of them is out, and the store closed
	stopped  atomic.Pointer[Stopped]
	current  *genCache[Path, Version]
	contents *genCache[Hash, []byte]
	frames   *genCache[uint64, []byte]
	offers   atomic.Pointer[offers] // changed under tidyMu and writeMu; nil: none
	codecs   codecPool
	carried  atomic.Pointer[planContents] // the plan whose contents were asked for last
	serial   atomic.Uint64                // disambiguates gaps and notices of one nanosecond
	applied  atomic.Int64                 // when Apply stored something last, by Options.Now
}

// Open opens the store in dir, creating it if it is missing, and takes back
// what a killed process left half-written. Errors: ErrLocked, ErrDamaged,
// ErrNewer, ErrNoSpace.
func Open(dir string, o Options) (*Store, error) {
	o = o.withDefaults()
	if !o.ReadOnly {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("open store: %w", err)
		}
	}
	rm := newRoom(dir, o)
	if err := rm.forFlush(); err != nil {
		return nil, fmt.Errorf("open store %s: %w", dir, err)
	}
	db, err := openBadger(dir, o)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", dir, err)
	}
	s := &Store{
		dir: dir, opt: o, db: db, room: rm, left: make(chan struct{}, 1),
		nodes:    newNodeTable(),
		current:  newGenCache[Path, Version](4096, func(v Version) int { return 1 }),
		contents: newGenCache[Hash, []byte](6<<20, func(b []byte) int { return len(b) + 64 }),
		frames:   newGenCache[uint64, []byte](6*frameSize, func(b []byte) int { return len(b) }),
	}
	if err := s.begin(); err != nil {
		db.Close()
		return nil, fmt.Errorf("open store %s: %w", dir, err)
	}
	rm.refill()
	return s, nil
}

// begin reads the state, migrates, and takes back a batch without an end.
func (s *Store) begin() error {
	if err := s.migrate(); err != nil {
		return err
	}
	st := State{}
	if _, err := s.get(keyState, &st); err != nil {
		return err
	}
	s.next = st
	s.state.Store(&st)
	if s.opt.ReadOnly {
		return nil
	}
	if err := s.takeBack(st.Seq); err != nil {
		return err
	}
	return s.dropPacks()
}

func openBadger(dir string, o Options) (db *badger.DB, err error) {
	// It maps its files, and on a full tmpfs even to read one where nothing was
	// written is a fault.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch r := recover().(type) {
		case nil:
		case interface{ Addr() uintptr }:
			db, err = nil, fmt.Errorf("%w: %v", ErrNoSpace, r)
		default: // Badger panics on some damaged files
			db, err = nil, fmt.Errorf("%w: %v", ErrDamaged, r)
		}
	}()
	if !o.ReadOnly {
		dropEmpty(filepath.Join(dir, "db"))
	}
	db, err = badger.Open(badgerOptions(dir, o))
	switch {
	case err == nil:
		return db, nil
	case strings.Contains(err.Error(), "directory lock"):
		return nil, fmt.Errorf("%w: %w", ErrLocked, err)
	case errors.Is(err, os.ErrPermission):
		return nil, err
	case isNoSpace(err):
		return nil, fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
}

// dropEmpty removes empty value log and memtable files. A process killed while
// Badger makes such a file (before it has a size) or deletes it (it truncates
// first) leaves one; it holds nothing, but Badger refuses to open with it. Only
// when nobody has the store open: a living Badger may be about to fill it.
func dropEmpty(dir string) {
	lock, err := os.Open(dir)
	if err != nil {
		return
	}
	defer lock.Close()
	// Badger's own lock is a flock on the directory.
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return
	}
	files, err := lock.ReadDir(-1)
	if err != nil {
		return
	}
	for _, f := range files {
		if ext := filepath.Ext(f.Name()); ext != ".vlog" && ext != ".mem" {
			continue
		}
		if st, err := f.Info(); err == nil && st.Size() == 0 {
			os.Remove(filepath.Join(dir, f.Name()))
		}
	}
}

// valueThreshold is the size in bytes from which a value is in the value log.
const valueThreshold = 1024

// badgerOptions keeps Badger small: its defaults take 1 GB after 300 MiB of
// blobs, these about 30 MB of anonymous memory. Values from valueThreshold on go to
// the value log, so that compaction moves only keys and small deltas. Versions
// resemble their neighbours: zstd over blocks of 32 KiB makes 62 bytes of
// each, Snappy over the default 4 KiB 105.
func badgerOptions(dir string, o Options) badger.Options {
	return badger.DefaultOptions(filepath.Join(dir, "db")).
		WithLogger(badgerLog{o.Log}).
		WithReadOnly(o.ReadOnly).
		WithSyncWrites(false).
		WithDetectConflicts(false). // one writer at a time: writeMu
		WithNumVersionsToKeep(1).
		WithMemTableSize(4 * mib).
		WithNumMemtables(2).
		WithBaseTableSize(2 * mib).
		WithBaseLevelSize(8 * mib).
		WithNumLevelZeroTables(3).
		WithNumLevelZeroTablesStall(8).
		WithNumCompactors(2).
		WithNumGoroutines(1).
		WithValueThreshold(valueThreshold).
		WithValueLogFileSize(8 * mib).
		WithCompression(options.ZSTD).
		WithBlockSize(32 << 10).
		WithBlockCacheSize(6 * mib).
		WithIndexCacheSize(8 * mib).
		WithMetricsEnabled(false).
		WithCompactL0OnClose(false)
}

// Close writes out what is pending and releases the store. A second Close does
// nothing. ErrNoSpace: the disk is so full that Badger would die of writing;
// its files are left as a kill would leave them (nothing that Apply returned is
// lost), and stay locked until the process ends.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.tidyMu.Lock()
	defer s.tidyMu.Unlock()
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	// Badger unmaps its files: nobody may be looking at them. Not a lock,
	// because calls nest; new ones are refused by now.
	for s.users.Load() > 0 {
		<-s.left
	}
	s.codecs.close()
	if !s.opt.ReadOnly {
		if err := s.room.forFlush(); err != nil {
			return fmt.Errorf("close store: %w", err)
		}
	}
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	return nil
}

// Sync makes everything that Apply has returned durable against power loss.
func (s *Store) Sync() error {
	if !s.enter() {
		return ErrClosed
	}
	defer s.leave()
	if err := s.db.Sync(); err != nil {
		return fmt.Errorf("sync store: %w", err)
	}
	return nil
}

// Seq is the sequence number of the newest version, 0 for an empty log.
func (s *Store) Seq() uint64 { return s.state.Load().Seq }

// Checkpoint is what the last Apply with a checkpoint was given.
func (s *Store) Checkpoint() []byte { return s.state.Load().Checkpoint }

// Dir is the directory of the store.
func (s *Store) Dir() string { return s.dir }

// enter counts a user of the database in; false: it is closed.
func (s *Store) enter() bool {
	s.users.Add(1)
	if s.closed.Load() {
		s.leave()
		return false
	}
	return true
}

func (s *Store) leave() {
	if s.users.Add(-1) == 0 && s.closed.Load() {
		select {
		case s.left <- struct{}{}:
		default:
		}
	}
}

// view runs fn on a snapshot.
func (s *Store) view(fn func(txn *badger.Txn) error) error {
	if !s.enter() {
		return ErrClosed
	}
	defer s.leave()
	return s.db.View(fn)
}

// get decodes the record under key into v; false when there is none.
func (s *Store) get(key []byte, v any) (bool, error) {
	found := false
	err := s.view(func(txn *badger.Txn) error {
		var err error
		found, err = txnGet(txn, key, v)
		return err
	})
	return found, err
}

func txnGet(txn *badger.Txn, key []byte, v any) (bool, error) {
	item, err := txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return false, nil
	}
	if err != nil {
		return false, damaged(err)
	}
	return true, damaged(item.Value(func(val []byte) error { return decode(val, v) }))
}

// damaged marks an error of Badger's as damage, unless it is one of ours.
func damaged(err error) error {
	if err == nil || errors.Is(err, ErrDamaged) || errors.Is(err, ErrPruned) {
		return err
	}
	if errors.Is(err, badger.ErrDBClosed) || errors.Is(err, badger.ErrBlockedWrites) {
		return ErrClosed
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

// update runs fn in one transaction; for small records beside the log.
func (s *Store) update(fn func(txn *badger.Txn) error) error {
	if !s.enter() {
		return ErrClosed
	}
	defer s.leave()
	if err := s.room.check(0); err != nil {
		return err
	}
	s.gate.RLock()
	defer s.gate.RUnlock()
	return s.db.Update(fn)
}
