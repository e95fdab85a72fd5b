package store

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	badger "github.com/dgraph-io/badger/v4"
)

var makeFixture = flag.Bool("make-fixture", false, "write testdata/schema1.backup again (only to change what is in it)")

const fixture = "testdata/schema1.backup"

// fixtureChanges are the changes of the fixture; they make 600 versions, so three time blocks.
func fixtureChanges() []Change {
	var cs []Change
	for i := range 600 {
		text := fmt.Sprintf("version %d of this file\n", i)
		cs = append(cs, Change{
			Op: OpWrite, Path: Path(fmt.Sprintf("dir/f%d", i%7)), Time: int64(i) * int64(time.Second),
			HasContent: true, Content: []byte(text), Stat: Stat{Mode: fileMode, Size: int64(len(text)), Nlink: 1},
			Actor: Actor{PID: 1, Comm: "old", Session: "S"},
		})
	}
	return cs
}

// plainBadger opens a store's database without package store.
func plainBadger(dir string) (*badger.DB, error) {
	return badger.Open(badger.DefaultOptions(filepath.Join(dir, "db")).WithLogger(nil).
		WithMemTableSize(4 * mib).WithValueThreshold(1024).WithValueLogFileSize(8 * mib))
}

// A store of schema 1 had no time blocks. It is opened and upgraded, loses nothing, and stays
// upgraded.
func TestMigrate(t *testing.T) {
	if *makeFixture {
		writeFixture(t)
	}
	dir := t.TempDir()
	db, err := plainBadger(dir)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(fixture)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(db.Load(f, 16), f.Close(), db.Close())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s := open(t, dir, testOptions())
		if n, err := schemaOf(s.db); err != nil || n != schema {
			t.Fatalf("schema %d %v", n, err)
		}
		if string(s.Checkpoint()) != "the old checkpoint" || s.Seq() != 600 {
			t.Fatalf("checkpoint %q, seq %d", s.Checkpoint(), s.Seq())
		}
		checked(t, s)
		vs, _, err := s.Log(Filter{Since: time.Unix(300, 0), Until: time.Unix(309, 0), Oldest: true})
		if err != nil || len(vs) != 10 {
			t.Fatalf("log by time: %d %v", len(vs), err)
		}
		b, err := s.Content(vs[0].Blob)
		if err != nil || string(b) != "version 300 of this file\n" {
			t.Fatalf("content %q %v", b, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
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

func writeFixture(t *testing.T) {
	s := fresh(t)
	if _, err := s.Apply(context.Background(), fixtureChanges(), []byte("the old checkpoint")); err != nil {
		t.Fatal(err)
	}
	err := s.db.Update(func(txn *badger.Txn) error {
		for blk := range uint64(3) {
			if err := txn.Delete(keyTimes(blk * timeBlock)); err != nil {
				return err
			}
		}
		return txn.Set(keySchema, binary.AppendUvarint(nil, 1))
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(fixture), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(fixture)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := plainBadger(s.Dir())
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.Backup(f, 0)
	if err = errors.Join(err, db.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// A second Open fails at once and says why; damaged files are named.
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
