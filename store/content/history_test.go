package content_test

import (
	"crypto/sha256"
	"testing"

	"cachebro/scripts/testkit/storetest"
	"cachebro/store"
	"cachebro/store/content"
	"cachebro/store/keep"
)

// The tests of package content_test use a whole history, with real references, retention, purge and
// fsck.

type (
	Hash    = content.Hash
	Sibling = content.Sibling
	Options = store.Options
	Change  = store.Change
	Path    = store.Path
)

// Store is a history with its Keeper.
type Store struct {
	*store.Store
	*keep.Keeper
}

const (
	OpCreate = store.OpCreate
	OpWrite  = store.OpWrite

	fileMode = storetest.FileMode
)

func opened(dir string, o Options) (*Store, error) {
	s, err := store.Open(dir, o)
	if err != nil {
		return nil, err
	}
	return &Store{s, keep.New(s, nil, nil)}, nil
}

func open(t testing.TB, dir string, o Options) *Store {
	t.Helper()
	s, err := opened(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func fresh(t testing.TB) *Store {
	t.Helper()
	return open(t, t.TempDir(), testOptions())
}

var (
	testOptions = storetest.Options
	file        = storetest.Closed
	noise       = storetest.Noise
)

func apply(t testing.TB, s *Store, cs ...Change) []store.Version {
	t.Helper()
	return storetest.Apply(t, s.Store, cs...)
}

func contentOf(t testing.TB, s *Store, p Path) string {
	t.Helper()
	return storetest.Content(t, s.Store, p)
}

func checked(t testing.TB, s *Store) {
	t.Helper()
	storetest.Checked(t, s.Store)
}

func hashOf(b []byte) Hash { return sha256.Sum256(b) }
