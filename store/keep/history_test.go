package keep

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"cachebro/store"
	"cachebro/store/content"

	"golang.org/x/sys/unix"
)

type (
	Hash    = content.Hash
	Version = store.Version
	Stat    = store.Stat
	Filter  = store.Filter
	Options = store.Options
	Change  = store.Change
	Path    = store.Path
)

// Store is a history with its keeper.
type Store struct {
	*store.Store
	*Keeper
}

const (
	OpCreate = store.OpCreate
	OpWrite  = store.OpWrite
	OpRename = store.OpRename

	mib = int64(1) << 20

	fileMode = unix.S_IFREG | 0o644
)

// testOptions leave tests alone with the free space of the machine.
func testOptions() Options { return Options{MinFree: 1, Ballast: -1} }

func opened(dir string, o Options) (*Store, error) {
	s, err := store.Open(dir, o)
	if err != nil {
		return nil, err
	}
	return &Store{s, New(s, nil)}, nil
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

var clock int64 = 1_700_000_000_000_000_000

// file is a change that closes a file with content.
func file(op store.Op, p Path, text string) Change {
	clock += int64(time.Millisecond)
	return Change{
		Op: op, Path: p, Time: clock, HasContent: true, Content: []byte(text),
		Stat:  store.Stat{Mode: fileMode, Size: int64(len(text)), Nlink: 1, Mtime: clock},
		Actor: store.Actor{PID: 7, Comm: "test"},
	}
}

func op(o store.Op, p, p2 Path, mode uint32) Change {
	clock += int64(time.Millisecond)
	return Change{Op: o, Path: p, Path2: p2, Time: clock, Stat: Stat{Mode: mode, Nlink: 1}, Actor: store.Actor{PID: 7, Comm: "test"}}
}

func apply(t testing.TB, s *Store, cs ...Change) []store.Version {
	t.Helper()
	vs, err := s.Apply(context.Background(), cs, nil)
	if err != nil {
		t.Fatal(err)
	}
	return vs
}

func contentOf(t testing.TB, s *Store, p Path) string {
	t.Helper()
	v, found, err := s.Current(p)
	if err != nil || !found || v.Deleted() {
		t.Fatalf("current %q: %v %v %+v", p, found, err, v)
	}
	b, err := s.Content(v.Blob)
	if err != nil {
		t.Fatalf("content of %q: %v", p, err)
	}
	return string(b)
}

// noise is text that does not compress, in lines.
func noise(rnd *rand.Rand, lines int) []byte {
	var b bytes.Buffer
	for range lines {
		fmt.Fprintf(&b, "%016x%016x%016x\n", rnd.Uint64(), rnd.Uint64(), rnd.Uint64())
	}
	return b.Bytes()
}

// checked fails the test when fsck finds anything.
func checked(t *testing.T, s *Store) {
	t.Helper()
	c, err := s.Fsck(context.Background(), false, nil)
	if err != nil || !c.OK() {
		t.Fatalf("fsck: %v %v %q", err, c.Unread, c.Problems)
	}
}
