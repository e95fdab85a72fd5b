package db

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"cachebro/store/space"

	badger "github.com/dgraph-io/badger/v4"
	"golang.org/x/sys/unix"
)

// Keys that are deleted right after they are written.
var (
	keyScratch = []byte("~scratch")
	keyFiller  = []byte("~filler")
)

const (
	// minRotated is the size of the current value log file, in bytes, from which a new one is
	// worthwhile.
	minRotated = 128 << 10

	// A value log file is rewritten if more than this share of it is deleted.
	WasteSome   = 0.15 // when the daemon collects garbage by itself
	WasteLittle = 0.03 // when the user asks for it
	WasteNone   = 1e-9 // after a purge
)

// Compact returns deleted space to the file system. Badger frees a value only after compaction has
// merged the deletion of its key, and never in the value log file that it is writing. So Compact
//   - begins a new value log file,
//   - flushes the memtable and merges all tables,
//   - rewrites the value log files whose share of deleted bytes is above waste.
func (d *DB) Compact(ctx context.Context, waste float64) error {
	if !d.enter() {
		return ErrClosed
	}
	defer d.leave()
	least := int64(minRotated)
	if waste == WasteNone {
		least = 1
	}
	if err := d.rotate(least); err != nil && !errors.Is(err, space.ErrFull) {
		return fmt.Errorf("compact: %w", err)
	}
	if err := d.flush(); err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	if err := d.bdb.Flatten(1); err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	for range 4096 { // more files than the largest store has
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := d.room.Check(0); err != nil {
			free, _, e := d.room.Free()
			if e != nil || free < space.Reserve {
				return err
			}
		}
		err := d.bdb.RunValueLogGC(waste)
		if errors.Is(err, badger.ErrNoRewrite) || errors.Is(err, badger.ErrRejected) {
			break
		}
		if err != nil {
			return fmt.Errorf("compact: %w", err)
		}
	}
	return nil
}

// flush writes Badger's memtable to disk as a table. Badger does that only when a prefix of keys is
// dropped. Other writes wait meanwhile, because Badger would refuse them.
func (d *DB) flush() error {
	d.Lock()
	defer d.Unlock()
	d.gate.Lock()
	defer d.gate.Unlock()
	err := d.bdb.Update(func(txn *badger.Txn) error { return txn.Set(keyScratch, []byte{1}) })
	if err != nil {
		return err
	}
	return d.bdb.DropPrefix(keyScratch)
}

// rotate makes Badger begin a new value log file, so that the current one can be rewritten as well.
// Badger begins one only when a file is full, so rotate fills the current file and then deletes the
// filler. It does nothing if the current file has fewer than least bytes.
func (d *DB) rotate(least int64) error {
	dir := filepath.Join(d.dir, "db")
	last, used := lastValueLog(dir)
	if used < least {
		return nil
	}
	junk := make([]byte, 512<<10)
	rand.Read(junk)
	for range 64 {
		if err := d.room.Check(int64(len(junk))); err != nil {
			return err
		}
		if err := d.Update(func(txn *badger.Txn) error { return txn.Set(keyFiller, junk) }); err != nil {
			return err
		}
		if now, _ := lastValueLog(dir); now != last {
			break
		}
	}
	return d.Update(func(txn *badger.Txn) error { return txn.Delete(keyFiller) })
}

// lastValueLog returns the name of the value log file that Badger writes, and its allocated bytes.
func lastValueLog(dir string) (name string, used int64) {
	files, err := filepath.Glob(filepath.Join(dir, "*.vlog"))
	if err != nil || len(files) == 0 {
		return "", 0
	}
	name = slices.Max(files)
	var st unix.Stat_t
	if unix.Lstat(name, &st) == nil {
		used = st.Blocks * 512
	}
	return name, used
}
