package wire

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The socket of a daemon that was killed stays; it must not stand in the way,
// and a living one must not be pushed aside.
func TestStaleSocket(t *testing.T) {
	p, root := testPaths(t)
	state, _ := p.MakeState(root)
	l, path, err := Listen(p, root, state)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Listen(p, root, state); !errors.Is(err, ErrLocked) {
		t.Fatalf("second listener: %v, want ErrLocked", err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Fatal("the test wants a stale socket")
	}
	if _, err := Dial(context.Background(), p, Hello{Root: root}, Timeouts{}); !errors.Is(err, ErrNoDaemon) {
		t.Fatalf("dial to a stale socket: %v", err)
	}
	l, _, err = Listen(p, root, state)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}

func TestForeignDirectories(t *testing.T) {
	p, root := testPaths(t)
	state, _ := p.MakeState(root)
	sock := filepath.Join(p.RuntimeDir, "cachebro")
	if err := os.MkdirAll(sock, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(sock, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := ownDir(sock, true); !errors.Is(err, ErrForeign) {
		t.Errorf("a directory open to others: %v", err)
	}
	// The temp directory still serves.
	l, path, err := Listen(p, root, state)
	if err != nil || filepath.Dir(path) == sock {
		t.Fatalf("listen at %s: %v", path, err)
	}
	l.Close()
	if os.Getuid() != 0 {
		return
	}
	if err := os.Chown(state, 12345, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := p.MakeState(root); !errors.Is(err, ErrForeign) || Hint(err) == "" {
		t.Errorf("state of another user: %v", err)
	}
	tmp := filepath.Join(p.TempDir, fmt.Sprintf("cachebro-%d", os.Getuid()))
	if err := os.Chown(tmp, 12345, 0); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Listen(p, root, state); !errors.Is(err, ErrForeign) {
		t.Errorf("socket directory of another user: %v", err)
	}
}

func TestPaths(t *testing.T) {
	p, _ := testPaths(t)
	root := filepath.Join(p.TempDir, strings.Repeat("very-long-", 12), "a\nb")
	state, err := p.MakeState(root)
	if err != nil || !strings.HasPrefix(filepath.Base(state), "a_b-") {
		t.Fatalf("state %q, %v", state, err)
	}
	if got, ok := p.Find(filepath.Join(root, "x", "y")); !ok || got != root {
		t.Errorf("Find from below = %q, %v", got, ok)
	}
	if got, ok := p.Find(filepath.Dir(root)); ok {
		t.Errorf("Find from above = %q", got)
	}
	if _, err := (Paths{Override: "rel"}).State(root); !errors.Is(err, ErrBadRequest) {
		t.Errorf("relative CACHEBRO_DIR: %v", err)
	}
	if s, _ := (Paths{Override: "/x"}).State("/p"); s != "/x/p-"+Key("/p") {
		t.Errorf("override: %s", s)
	}
	if s, _ := (Paths{Home: "/h"}).State("/p"); s != "/h/.local/state/cachebro/p-"+Key("/p") {
		t.Errorf("home: %s", s)
	}
	// A daemon started with another environment is found through the note.
	other := p
	other.RuntimeDir = t.TempDir()
	l, path, err := Listen(other, root, state)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := connect(context.Background(), p, root)
	if err != nil {
		t.Fatalf("socket %s: %v", path, err)
	}
	c.Close()
}
