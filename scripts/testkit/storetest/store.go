// Package storetest is for tests of packages that use a store. It provides empty stores, a Tree and
// an Oracle. A Tree is a file system in memory whose operations return the changes that a daemon
// would pass to Store.Apply. An Oracle records what happened to a tree and decides what an undo
// should do.
package storetest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"cachebro/store"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// The modes of ordinary files and directories.
const (
	FileMode = unix.S_IFREG | 0o644
	DirMode  = unix.S_IFDIR | 0o755
)

// Options returns options that make tests independent of the machine's free space.
func Options() store.Options { return store.Options{MinFree: 1, Ballast: -1} }

// Open opens a store and closes it at the end of the test.
func Open(t testing.TB, dir string, o store.Options) *store.Store {
	t.Helper()
	s, err := store.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// Fresh returns an empty store.
func Fresh(t testing.TB) *store.Store {
	t.Helper()
	return Open(t, t.TempDir(), Options())
}

// FreshRapid returns an empty store for one example in a test of a property.
func FreshRapid(r *rapid.T, o store.Options) *store.Store {
	dir, err := os.MkdirTemp("", "cachebro-store-")
	if err != nil {
		r.Fatal(err)
	}
	s, err := store.Open(dir, o)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { s.Close(); os.RemoveAll(dir) })
	return s
}

// clock is the time of the last change, in ns since the epoch.
var clock int64 = 1_700_000_000_000_000_000

// Now returns the time of the last change.
func Now() time.Time { return time.Unix(0, clock) }

// Wait advances the clock between two changes.
func Wait(d time.Duration) { clock += int64(d) }

// Closed returns a change that closes a file with content.
func Closed(op store.Op, p store.Path, content string) store.Change {
	c := Told(op, p, "", FileMode)
	c.HasContent, c.Content, c.Stat.Size, c.Stat.Mtime = true, []byte(content), int64(len(content)), c.Time
	return c
}

// Told returns a change without content.
func Told(op store.Op, p, p2 store.Path, mode uint32) store.Change {
	Wait(time.Millisecond)
	return store.Change{Op: op, Path: p, Path2: p2, Time: clock, Stat: store.Stat{Mode: mode, Nlink: 1}, Actor: store.Actor{PID: 7, Comm: "test"}}
}

// Apply applies changes and returns their versions.
func Apply(t testing.TB, s *store.Store, cs ...store.Change) []store.Version {
	t.Helper()
	vs, err := s.Apply(context.Background(), cs, nil)
	if err != nil {
		t.Fatal(err)
	}
	return vs
}

// Noise returns lines of text that do not compress.
func Noise(rnd *rand.Rand, lines int) []byte {
	var b bytes.Buffer
	for range lines {
		fmt.Fprintf(&b, "%016x%016x%016x\n", rnd.Uint64(), rnd.Uint64(), rnd.Uint64())
	}
	return b.Bytes()
}

// Checked fails the test if fsck finds a fault.
func Checked(t testing.TB, s *store.Store) {
	t.Helper()
	c, err := s.Fsck(context.Background(), false)
	if err != nil || !c.OK() {
		t.Fatalf("fsck: %v %v %q", err, c.Unread, c.Problems)
	}
}

// Content returns the present content of a path.
func Content(t testing.TB, s *store.Store, p store.Path) string {
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
