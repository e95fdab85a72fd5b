package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The socket of a killed daemon stays. It must not prevent the start of another one, and a living
// daemon's socket must not be replaced.
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
	// The temporary directory can still be used.
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
}

// Another user could create cachebro's directory in a shared temporary directory first. Then the
// daemon did not start, or clients talked to that user.
func TestNobodyBlocksTheSocket(t *testing.T) {
	for name, block := range map[string]func(dir string) error{
		"open to others": func(dir string) error { return errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o777)) },
		"a file":         func(dir string) error { return os.WriteFile(dir, nil, 0o600) },
		"a symbolic link": func(dir string) error {
			return errors.Join(os.Mkdir(dir+"-elsewhere", 0o700), os.Symlink(dir+"-elsewhere", dir))
		},
		"another user's": func(dir string) error {
			if err := os.Mkdir(dir, 0o700); err != nil || os.Getuid() != 0 {
				return err
			}
			return os.Chown(dir, 12345, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, root := testPaths(t)
			tmp := filepath.Join(filepath.Dir(root), "t") // short, as a socket's path must be
			if err := os.Mkdir(tmp, 0o700); err != nil {
				t.Fatal(err)
			}
			p.RuntimeDir, p.TempDir = "", tmp
			state, err := p.MakeState(root)
			if err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(tmp, fmt.Sprintf("cachebro-%d", os.Getuid()))
			if err := block(dir); err != nil {
				t.Fatal(err)
			}
			theirs := filepath.Join(dir, Key(root)+".sock")
			if l, err := net.Listen("unix", theirs); err == nil { // a foreign daemon
				defer l.Close()
			}
			l, path, err := Listen(p, root, state)
			if err != nil {
				t.Fatal(err)
			}
			srv := NewServer(ServerOptions{Hello: func(Hello, Peer) (HelloAnswer, error) { return HelloAnswer{Version: "1", Root: root}, nil }})
			go func() { _ = srv.Serve(l) }()
			defer srv.Close()
			if os.Getuid() == 0 || name != "another user's" {
				if filepath.Dir(path) == dir {
					t.Errorf("it listens at %s", path)
				}
			}
			c := dialTest(t, p, root)
			c.Close()
			// A client that does not know the state directory finds the socket by the same rule.
			if err := os.Remove(filepath.Join(state, socketNote)); err != nil {
				t.Fatal(err)
			}
			c = dialTest(t, p, root)
			c.Close()
			if got, ok := p.Find(filepath.Join(root, "x")); !ok || got != root {
				t.Errorf("found %q, %v", got, ok)
			}
		})
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

// JSON replaces bytes that are not UTF-8. So each client found that the daemon served another root, and
// a mount failed after 20 s with "another store daemon owns" the history.
func TestNoStateForRootThatIsNotUTF8(t *testing.T) {
	p := Paths{Override: t.TempDir()}
	if _, err := p.MakeState("/bad\xff/project"); err == nil || Hint(err) == "" {
		t.Errorf("got %v", err)
	}
	if left, err := os.ReadDir(p.Override); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
}
