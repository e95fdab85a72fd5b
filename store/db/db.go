// Package db wraps the store's Badger database. It opens and closes the database safely on a full
// disk, reads from snapshots, writes through one writer at a time, and returns space to the file
// system. It defines only two keys of its own.
//
// # Locks
//
// Each operation that appends to the log or removes from it holds the lock of DB (Lock and Unlock).
// The lock is held during Badger calls, because versions must be committed in the order of their
// numbers. Long work takes it in steps of a few milliseconds. A second lock, gate, is taken after
// the lock of DB. It blocks small writes (Update) while Badger flushes. Readers take no lock.
package db

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"cachebro/store/leaf/loop"
	"cachebro/store/space"

	badger "github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"golang.org/x/sys/unix"
)

const mib = int64(1) << 20

// The errors of the database, which also returns space.ErrFull.
var (
	// ErrLocked means that another process has the database open.
	ErrLocked = errors.New("the store is in use by another process")
	// ErrDamaged means that a file of the database, or a record in it, cannot be read.
	ErrDamaged = errors.New("the store is damaged")
	// ErrClosed means that the database was closed.
	ErrClosed = errors.New("the store is closed")
)

// DB is an open database. All methods may be called concurrently.
type DB struct {
	// Mutex is the writer's lock (see the package comment).
	sync.Mutex

	dir  string
	bdb  *badger.DB
	room *space.Room

	// gate blocks small writes (Update) while Badger flushes.
	gate sync.RWMutex

	reading struct {
		sync.Mutex     // guards n
		n          int // number of ReadMany calls that have not ended
	}

	closed  atomic.Bool
	users   atomic.Int64  // calls inside Badger; Close waits for them
	drained chan struct{} // capacity 1, never closed: signals the end of the last call after RefuseCalls
}

// Options configure a DB.
type Options struct {
	ReadOnly bool
	Log      *slog.Logger // not nil
}

// Open opens the database of the store in dir, creating it if it is missing. It returns
// ErrLocked, ErrDamaged or space.ErrFull.
func Open(dir string, room *space.Room, o Options) (*DB, error) {
	bdb, err := openBadger(dir, o)
	if err != nil {
		return nil, err
	}
	return &DB{dir: dir, bdb: bdb, room: room, drained: make(chan struct{}, 1)}, nil
}

func openBadger(dir string, o Options) (bdb *badger.DB, err error) {
	// Badger maps its files. On a full tmpfs, even reading a page that was never written causes a
	// fault.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch r := recover().(type) {
		case nil:
		case interface{ Addr() uintptr }:
			bdb, err = nil, fmt.Errorf("%w: %v", space.ErrFull, r)
		default: // Badger panics on some damaged files
			bdb, err = nil, fmt.Errorf("%w: %v", ErrDamaged, r)
		}
	}()
	if err := lostManifest(filepath.Join(dir, "db")); err != nil {
		return nil, err
	}
	if !o.ReadOnly {
		dropEmpty(filepath.Join(dir, "db"))
	}
	bdb, err = badger.Open(badgerOptions(dir, o))
	switch {
	case err == nil:
		return bdb, nil
	case strings.Contains(err.Error(), "directory lock"):
		return nil, fmt.Errorf("%w: %w", ErrLocked, err)
	}
	return nil, openError(err)
}

// openError classifies the error with which Badger failed to open. A system error is not reported
// as damage, because a user who reads of damage might move the whole history away.
func openError(err error) error {
	if why := refusal(err); why != nil {
		return fmt.Errorf("%w: %w", why, err)
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

// refusal returns the system error that caused err, or nil. It compares texts, because Badger
// preserves only the text of an error.
func refusal(err error) error {
	for _, e := range []syscall.Errno{unix.ENOSPC, unix.EDQUOT, unix.EACCES, unix.EPERM, unix.EFBIG, unix.EIO, unix.ENFILE, unix.EMFILE, unix.ENOMEM, unix.EROFS} {
		if !errors.Is(err, e) && !strings.Contains(err.Error(), e.Error()) {
			continue
		}
		if e == unix.ENOSPC || e == unix.EDQUOT {
			return space.ErrFull
		}
		return e
	}
	return nil
}

// lostManifest returns ErrDamaged if the database has tables but no MANIFEST, which lists them. Badger
// would make an empty MANIFEST and delete the tables.
func lostManifest(dir string) error {
	if _, err := os.Lstat(filepath.Join(dir, badger.ManifestFilename)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	files, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, f := range files {
		if filepath.Ext(f.Name()) == ".sst" {
			return fmt.Errorf("%w: %s is missing", ErrDamaged, filepath.Join(dir, badger.ManifestFilename))
		}
	}
	return err
}

// dropEmpty removes empty value log and memtable files. Badger leaves an empty file if the process
// is killed while Badger creates or deletes it, and then refuses to open the database. dropEmpty
// does nothing while a process has the store open, because Badger may be about to fill the file.
func dropEmpty(dir string) {
	lock, err := os.Open(dir)
	if err != nil {
		return
	}
	defer lock.Close()
	// Badger's own lock is an flock on the directory.
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

// valueThreshold is the size in bytes from which values are stored in the value log.
const valueThreshold = 1024

// badgerOptions limits Badger's memory to about 30 MB of anonymous memory. With the defaults it
// takes 1 GB after 300 MiB of blobs. Values of valueThreshold bytes and more go to the value log,
// so that compaction moves only keys and small deltas. Neighbouring versions are similar: zstd over
// blocks of 32 KiB reduces each to 62 bytes, Snappy over the default 4 KiB to 105.
func badgerOptions(dir string, o Options) badger.Options {
	opt := badger.DefaultOptions(filepath.Join(dir, "db")).
		WithLogger(badgerLog{o.Log}).
		WithReadOnly(o.ReadOnly).
		WithSyncWrites(false).
		WithDetectConflicts(false). // Lock allows one writer at a time
		WithNumVersionsToKeep(1).
		WithMemTableSize(4 * mib).
		WithNumMemtables(2).
		WithBaseTableSize(tableSize(filepath.Join(dir, "db"))).
		WithBaseLevelSize(8 * mib).
		WithNumLevelZeroTables(3).
		WithNumLevelZeroTablesStall(8).
		WithNumCompactors(2).
		WithNumGoroutines(1).
		WithValueThreshold(valueThreshold).
		WithValueLogFileSize(8 * mib).
		WithCompression(options.ZSTD).
		WithBlockSize(32 << 10).
		WithBlockCacheSize(blockCache).
		WithIndexCacheSize(8 * mib).
		WithMetricsEnabled(false).
		WithCompactL0OnClose(false)
	opt.TableSizeMultiplier = 1
	return opt
}

// The size of the cache of decoded blocks in bytes, in normal use and during ReadMany.
const (
	blockCache      = 6 * mib
	largeBlockCache = 64 * mib
)

// ReadMany enlarges the cache of decoded blocks until end is called. The keys of contents are
// hashes. So reading thousands of contents in any order other than by hash would decode a block of
// 32 KiB for each, which takes 20 to 30 µs.
func (d *DB) ReadMany() (end func()) {
	d.reading.Lock()
	defer d.reading.Unlock()
	d.reading.n++
	d.sizeBlockCache()
	return sync.OnceFunc(func() {
		d.reading.Lock()
		defer d.reading.Unlock()
		d.reading.n--
		d.sizeBlockCache()
	})
}

// sizeBlockCache sets the size of the cache. The caller holds d.reading.
func (d *DB) sizeBlockCache() {
	if !d.enter() {
		return
	}
	defer d.leave()
	size := blockCache
	if d.reading.n > 0 { // 56 MiB with the daemon's usual memory limit
		size = max(blockCache, min(largeBlockCache, debug.SetMemoryLimit(-1)/2))
	}
	d.bdb.CacheMaxCost(badger.BlockCache, size)
}

// tableSize returns the size in bytes that the tables of every level should have. A compaction
// holds eight or more new tables in memory before it compresses them. Uncompressed, they take ten
// times their size on disk. Badger's default doubles the size with each level, which took 300 MB of
// memory for 300,000 files. A large store has larger tables, because each table takes a file
// descriptor.
func tableSize(dir string) int64 {
	var sum int64
	files, _ := os.ReadDir(dir) // fails for a new database
	for _, f := range files {
		if fi, err := f.Info(); err == nil && strings.HasSuffix(f.Name(), ".sst") {
			sum += fi.Size()
		}
	}
	return min(max(sum/maxTables, mib/2), 8*mib)
}

const maxTables = 1000

// RefuseCalls makes new calls fail. It returns false if it was called before. Call Close next.
func (d *DB) RefuseCalls() bool { return !d.closed.Swap(true) }

// Closed reports whether RefuseCalls was called.
func (d *DB) Closed() bool { return d.closed.Load() }

// Close waits for the calls in progress and then runs ready. After that it writes all pending data
// and releases the files. If ready returns an error, the files are left as after a kill, and stay
// locked until the process ends.
func (d *DB) Close(ready func() error) error {
	// Badger unmaps its files, so no call may be using them. A lock cannot ensure that, because
	// calls nest. New calls are already refused.
	for d.users.Load() > 0 {
		<-d.drained
	}
	if err := ready(); err != nil {
		return err
	}
	return d.bdb.Close()
}

// Sync makes everything that was committed durable against power loss.
func (d *DB) Sync() error {
	if !d.enter() {
		return ErrClosed
	}
	defer d.leave()
	if err := d.bdb.Sync(); err != nil {
		return fmt.Errorf("sync store: %w", err)
	}
	return nil
}

// enter registers a call in progress. It returns false if the database is closed.
func (d *DB) enter() bool {
	d.users.Add(1)
	if d.closed.Load() {
		d.leave()
		return false
	}
	return true
}

func (d *DB) leave() {
	if d.users.Add(-1) == 0 && d.closed.Load() {
		loop.Wake(d.drained)
	}
}

// View runs fn on a snapshot.
func (d *DB) View(fn func(txn *badger.Txn) error) error {
	if !d.enter() {
		return ErrClosed
	}
	defer d.leave()
	return d.bdb.View(fn)
}

// Update runs fn in one transaction. It is for small records outside the log.
func (d *DB) Update(fn func(txn *badger.Txn) error) error {
	if !d.enter() {
		return ErrClosed
	}
	defer d.leave()
	if err := d.room.Check(0); err != nil {
		return err
	}
	d.gate.RLock()
	defer d.gate.RUnlock()
	return d.bdb.Update(fn)
}

// Damaged wraps an error of Badger in ErrDamaged, or in ErrClosed if Badger was closed.
func Damaged(err error) error {
	if err == nil || errors.Is(err, ErrDamaged) {
		return err
	}
	if errors.Is(err, badger.ErrDBClosed) || errors.Is(err, badger.ErrBlockedWrites) {
		return ErrClosed
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

// FailedWrite wraps the error of a write in space.ErrFull if the disk is full.
func FailedWrite(err error) error {
	if err != nil && errors.Is(refusal(err), space.ErrFull) {
		return fmt.Errorf("%w: %w", space.ErrFull, err)
	}
	return err
}

// badgerLog forwards Badger's warnings and errors and drops all other messages.
type badgerLog struct{ l *slog.Logger }

func (b badgerLog) Errorf(f string, a ...any)   { b.l.Error(line(f, a), "from", "badger") }
func (b badgerLog) Warningf(f string, a ...any) { b.l.Warn(line(f, a), "from", "badger") }
func (b badgerLog) Infof(string, ...any)        {}
func (b badgerLog) Debugf(string, ...any)       {}

func line(f string, a []any) string { return strings.TrimSpace(fmt.Sprintf(f, a...)) }

// Measure returns the disk space of the keys for which mine returns true, and of all others. A
// value in the value log counts with its full size. The compressed table files are divided in
// proportion to the sizes of keys and values.
func (d *DB) Measure(ctx context.Context, mine func(key []byte) bool) (own, rest int64, err error) {
	var logged, tabled [2]int64 // 0: mine, 1: the rest
	err = d.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{PrefetchValues: false})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			item, kind := it.Item(), 1
			if mine(item.Key()) {
				kind = 0
			}
			n := item.ValueSize()
			if n >= valueThreshold {
				logged[kind] += n
				n = 0
			}
			tabled[kind] += item.KeySize() + n
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		return nil
	})
	files := float64(d.room.Tables()) / float64(max(tabled[0]+tabled[1], 1))
	return logged[0] + int64(float64(tabled[0])*files), logged[1] + int64(float64(tabled[1])*files), err
}
