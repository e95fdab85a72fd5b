package db

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"cachebro/store/space"

	badger "github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/y"
	"golang.org/x/sys/unix"
)

// A limit on file sizes used to be reported as a damaged store, with the advice to move the history
// away.
func TestOpenErrors(t *testing.T) {
	opened := func() error {
		db, err := openBadger(t.TempDir(), Options{Log: slog.New(slog.DiscardHandler)})
		if err == nil {
			err = db.Close()
		}
		return err
	}
	if err := opened(); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Dup(0) // the next descriptor would reach the limit
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(fd)
	for _, c := range []struct {
		limit   int
		to      uint64
		refused syscall.Errno
	}{{unix.RLIMIT_FSIZE, 64 << 10, unix.EFBIG}, {unix.RLIMIT_NOFILE, uint64(fd) + 1, unix.EMFILE}} {
		var limit unix.Rlimit
		if err := unix.Getrlimit(c.limit, &limit); err != nil {
			t.Fatal(err)
		}
		err := unix.Setrlimit(c.limit, &unix.Rlimit{Cur: c.to, Max: limit.Max})
		if err != nil {
			t.Fatal(err)
		}
		err = opened()
		if err := unix.Setrlimit(c.limit, &limit); err != nil {
			t.Fatal(err)
		}
		if errors.Is(err, ErrDamaged) || !errors.Is(err, c.refused) {
			t.Errorf("%v is reported as: %v", c.refused, err)
		}
	}
	for _, refused := range []syscall.Errno{unix.EACCES, unix.EPERM, unix.EIO, unix.ENFILE, unix.ENOMEM, unix.EROFS} {
		for _, err := range []error{refused, y.Wrap(&os.PathError{Op: "truncate", Path: "00001.mem", Err: refused}, "open memtable")} {
			if err := openError(err); errors.Is(err, ErrDamaged) || !errors.Is(err, refused) {
				t.Errorf("%v is reported as: %v", refused, err)
			}
		}
	}
	for _, full := range []error{unix.ENOSPC, y.Wrap(unix.ENOSPC, "open memtable"), fmt.Errorf("open: %w", unix.EDQUOT)} {
		if err := openError(full); !errors.Is(err, space.ErrFull) {
			t.Errorf("a full disk is reported as: %v", err)
		}
	}
	if err := openError(errors.New("checksum mismatch")); !errors.Is(err, ErrDamaged) {
		t.Errorf("a wrong checksum is reported as: %v", err)
	}
}

// A database without its MANIFEST used to be opened as an empty one, and its tables were deleted.
func TestOpenWithoutManifest(t *testing.T) {
	dir := t.TempDir()
	o := Options{Log: slog.New(slog.DiscardHandler)}
	bdb, err := openBadger(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	err = bdb.Update(func(txn *badger.Txn) error { return txn.Set([]byte("key"), []byte("value")) })
	if err := errors.Join(err, bdb.Close()); err != nil {
		t.Fatal(err)
	}
	manifest := filepath.Join(dir, "db", badger.ManifestFilename)
	if err := os.Rename(manifest, manifest+".away"); err != nil {
		t.Fatal(err)
	}
	if _, err := openBadger(dir, o); !errors.Is(err, ErrDamaged) {
		t.Errorf("opened without %s: %v", manifest, err)
	}
	if err := os.Rename(manifest+".away", manifest); err != nil {
		t.Fatal(err)
	}
	bdb, err = openBadger(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	err = bdb.View(func(txn *badger.Txn) error { _, err := txn.Get([]byte("key")); return err })
	if err := errors.Join(err, bdb.Close()); err != nil {
		t.Errorf("the table is gone: %v", err)
	}
}
