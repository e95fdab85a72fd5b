package answers

import (
	"context"
	"syscall"
	"testing"
	"time"

	"cachebro/store"
)

// Equal trees have the same digest, however they were made. Different trees have different digests.
func TestTreeDigest(t *testing.T) {
	s, err := store.Open(t.TempDir(), store.Options{Ballast: -1, MinFree: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	write := func(name, text string) {
		t.Helper()
		c := store.Change{Op: store.OpWrite, Path: store.Path(name), Time: time.Now().UnixNano(), HasContent: true, Content: []byte(text),
			Stat: store.Stat{Mode: syscall.S_IFREG | 0o644, Size: int64(len(text))}}
		if _, err := s.Apply(context.Background(), []store.Change{c}, nil); err != nil {
			t.Fatal(err)
		}
	}
	write("a/b/c", "1")
	write("a/d", "2")
	live := &digests{store: s}
	root, _, err := live.digestOf("")
	if err != nil || root == (digest{}) {
		t.Fatal(root, err)
	}
	// The second way to compute the digest is to replay all versions from the beginning of the log.
	replayed := &digests{store: s, built: true, files: map[store.Path]digest{}, sums: map[store.Path]digest{}}
	if got, _, err := replayed.digestOf(""); err != nil || got != root {
		t.Fatal(got, root, err)
	}
	below, _, _ := live.digestOf("a")
	file, _, _ := live.digestOf("a/d")
	none, _, _ := live.digestOf("nothing")
	if below != root || file == root || file == (digest{}) || none != (digest{}) {
		t.Fatal(below, file, none)
	}
	if d := root.plus(file, true); d.plus(file, false) != root || d == root {
		t.Fatal("what is taken away can be added again")
	}
	write("a/d", "3")
	if got, _, err := live.digestOf(""); err != nil || got == root {
		t.Fatal("another content leaves the digest as it is", got, err)
	}
	write("a/d", "2")
	if got, _, err := live.digestOf(""); err != nil || got != root {
		t.Fatal("the content that came back has another digest", got, root, err)
	}
}
