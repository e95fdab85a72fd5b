package store

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	badger "github.com/dgraph-io/badger/v4"
)

// A store of schema 4 is upgraded, loses nothing, and stays upgraded. An older one is refused.
func TestMigrate(t *testing.T) {
	s := fresh(t)
	apply(t, s, file(OpCreate, "a", "text"))
	number := func(n uint64) {
		t.Helper()
		err := s.db.Update(func(txn *badger.Txn) error { return txn.Set(keySchema, binary.AppendUvarint(nil, n)) })
		err = errors.Join(err, s.Close())
		if err != nil {
			t.Fatal(err)
		}
	}
	number(oldestSchema)
	for range 2 {
		s = open(t, s.Dir(), testOptions())
		if n, err := schemaOf(s.db); err != nil || n != schema || s.Seq() != 1 {
			t.Fatalf("schema %d, %d versions, %v", n, s.Seq(), err)
		}
		checked(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s = open(t, s.Dir(), testOptions())
	number(oldestSchema - 1)
	_, err := Open(s.Dir(), testOptions())
	if err == nil || errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "early cachebro") {
		t.Fatalf("open: %v", err)
	}
}

// A store of a later version of cachebro is not changed.
func TestNewerSchema(t *testing.T) {
	s := fresh(t)
	apply(t, s, file(OpCreate, "a", "text"))
	err := s.db.Update(func(txn *badger.Txn) error {
		return txn.Set(keySchema, binary.AppendUvarint(nil, schema+1))
	})
	if err = errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(s.Dir(), testOptions()); !errors.Is(err, ErrNewer) || Hint(err) == "" {
		t.Fatalf("open: %v", err)
	}
}

// A second Open fails at once and says why. Open reports damaged files.
func TestOpenErrors(t *testing.T) {
	s := fresh(t)
	if _, err := Open(s.Dir(), testOptions()); !errors.Is(err, ErrLocked) {
		t.Fatalf("second open: %v", err)
	}
	apply(t, s, file(OpCreate, "a", "text"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.Dir(), "db", "MANIFEST"), []byte("not this"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(s.Dir(), testOptions()); !errors.Is(err, ErrDamaged) || Hint(err) == "" {
		t.Fatalf("open of a damaged store: %v", err)
	}
	if err := s.db.View(func(*badger.Txn) error { return nil }); !errors.Is(err, ErrClosed) {
		t.Fatalf("use after close: %v", err)
	}
}
