package store

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"cachebro/store/content"
	"cachebro/store/db"
	"cachebro/store/leaf/cache"
	"cachebro/store/space"

	badger "github.com/dgraph-io/badger/v4"
)

// Store is an open store. All methods may be called concurrently.
type Store struct {
	Sessions *Sessions
	Journal  *Journal
	Notes    *Notes

	dir  string
	opt  Options
	db   *db.DB
	room *space.Room

	// tidyMu is the lock of the contents, taken before writeMu. Whoever drops or moves contents
	// holds it.
	tidyMu sync.Locker

	// writeMu is the writer lock of the database. It guards next, nodes and upToDateLists, and
	// serialises appends, plans and the steps of a collection.
	writeMu       sync.Locker
	next          State
	nodes         *cache.Cache[uint64, *node]
	upToDateLists upToDateLists

	groups *groups

	state    atomic.Pointer[State]  // published; immutable
	stopped  atomic.Pointer[string] // why Apply refuses to store; "" if it does not refuse
	current  *cache.Cache[Path, Version]
	contents *content.Store
	applied  atomic.Int64 // when Apply last stored something, according to Options.Now
}

// Open opens the store in dir, creating it if it is missing. It removes an incomplete batch of a
// killed process. Its errors are ErrLocked, ErrDamaged, ErrNewer and ErrNoSpace.
func Open(dir string, o Options) (*Store, error) {
	o = o.withDefaults()
	if !o.ReadOnly {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("open store: %w", err)
		}
	}
	rm := space.New(dir, space.Options{MinFree: o.MinFree, Ballast: o.Ballast, ReadOnly: o.ReadOnly})
	if err := rm.ForFlush(); err != nil {
		return nil, fmt.Errorf("open store %s: %w", dir, err)
	}
	d, err := db.Open(dir, rm, db.Options{ReadOnly: o.ReadOnly, Log: o.Log})
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", dir, err)
	}
	s := &Store{
		dir: dir, opt: o, db: d, writeMu: d, room: rm, Sessions: &Sessions{db: d},
		nodes:         cache.New[uint64](nodeMemory, (*node).cost),
		upToDateLists: newUpToDateLists(),
		groups:        newGroups(),
		current:       cache.New[Path, Version](4096, nil),
	}
	s.stopped.Store(new(string))
	s.Journal, s.Notes = &Journal{s: s}, &Notes{s: s}
	s.contents = content.New(dir, d, rm, content.Log{Write: s.writeContents, Uses: s.uses}, content.Options{
		MaxBlob: o.MaxBlob, Now: o.Now, Log: o.Log, ReadOnly: o.ReadOnly, Siblings: o.Siblings,
	})
	s.tidyMu = s.contents
	if err := s.begin(); err != nil {
		d.RefuseCalls()
		d.Close(func() error { return nil })
		return nil, fmt.Errorf("open store %s: %w", dir, err)
	}
	rm.Refill()
	return s, nil
}

// begin reads the state, migrates the store, and removes an incomplete batch.
func (s *Store) begin() error {
	if err := migrate(s); err != nil {
		return err
	}
	st := State{}
	if _, err := get(s.db, keyState, &st); err != nil {
		return err
	}
	s.next = st
	s.state.Store(&st)
	if err := s.groups.load(s.db); err != nil {
		return err
	}
	if s.opt.ReadOnly {
		return nil
	}
	if err := s.removeAbove(st.Seq); err != nil {
		return err
	}
	return s.contents.Open()
}

// Close writes all pending data and releases the store. A second Close does nothing. Close returns
// ErrNoSpace if the disk is so full that Badger would crash while writing. The files are then as a
// kill would leave them: everything that Apply stored is safe. They stay locked until the process
// ends.
func (s *Store) Close() error {
	if !s.db.RefuseCalls() {
		return nil
	}
	s.tidyMu.Lock()
	defer s.tidyMu.Unlock()
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	err := s.db.Close(func() error {
		s.contents.Close()
		return s.room.ForFlush()
	})
	if err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	return nil
}

// Sync makes everything that Apply has stored durable against power loss.
func (s *Store) Sync() error { return s.db.Sync() }

// Seq returns the number of the newest version, 0 for an empty log.
func (s *Store) Seq() uint64 { return s.state.Load().Seq }

// Checkpoint returns the last checkpoint given to Apply.
func (s *Store) Checkpoint() []byte { return s.state.Load().Checkpoint }

// Dir returns the directory of the store.
func (s *Store) Dir() string { return s.dir }

// get decodes the record under key into v. It returns false if the key does not exist.
func get(d *db.DB, key []byte, v any) (bool, error) {
	found := false
	err := d.View(func(txn *badger.Txn) error {
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

// damaged wraps an error of Badger in ErrDamaged if it means damage.
func damaged(err error) error { return db.Damaged(err) }

// Contents returns the content store that the versions refer to.
func (s *Store) Contents() *content.Store { return s.contents }

// Has reports whether the store has the content.
func (s *Store) Has(h Hash) bool { return s.contents.Has(h) }

// Content returns the bytes whose SHA-256 is h; the caller must not change them. It returns
// ErrPruned if the store does not have them, and ErrDamaged if the stored bytes have another
// hash.
func (s *Store) Content(h Hash) ([]byte, error) { return s.contents.Get(h) }

// write runs fn in a batch and commits it.
func (s *Store) write(fn func(*batch) error) error {
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	if s.db.Closed() {
		return ErrClosed
	}
	b := s.newBatch()
	defer b.discard()
	if err := fn(b); err != nil {
		return err
	}
	return b.commit()
}

// writeContents runs fn in a separate batch that changes only contents.
func (s *Store) writeContents(fn func(*content.Batch) error) error {
	return s.write(func(b *batch) error { return fn(b.contents) })
}

// uses calls fn with the content of each version, oldest first, until fn returns false.
func (s *Store) uses(fn func(h Hash, path string) bool) error {
	return s.scan(0, func(v Version) bool { return fn(v.Blob, string(v.Path)) }, pass{})
}

// DB returns the database that holds the store.
func (s *Store) DB() *db.DB { return s.db }

// Room returns the object that measures the store's size and the free space of its file
// system.
func (s *Store) Room() *space.Room { return s.room }

// Options returns the options that the store was opened with, defaults filled in.
func (s *Store) Options() Options { return s.opt }

// Applied returns the time at which Apply last stored something, according to Options.Now.
func (s *Store) Applied() time.Time { return time.Unix(0, s.applied.Load()) }

// Stats returns the counters.
func (s *Store) Stats() State { return *s.state.Load() }

// DiskUsage returns the allocated size of the store's directory without the ballast, and the free
// bytes of its file system. The size may be 2 s old.
func (s *Store) DiskUsage() (used, free int64, err error) {
	free, _, err = s.room.Free()
	return s.room.Usage(s.opt.Now(), false), free, err
}
