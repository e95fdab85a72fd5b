package wire

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Listen binds the project's socket. The caller holds the project's lock, so a daemon that answers at the
// socket belongs to another state directory, and Listen returns ErrLocked. A socket without a
// listening process is removed first.
func Listen(p Paths, root, state string) (*net.UnixListener, string, error) {
	var firstErr error
	for _, dir := range p.socketDirs() {
		path := filepath.Join(dir, p.socketName(root))
		if len(path) > maxSocket {
			firstErr = errors.Join(firstErr, Errorf(ErrBadRequest, "export TMPDIR=/tmp", "socket path %s is longer than %d bytes", path, maxSocket))
			continue
		}
		l, err := listenAt(dir, path)
		if errors.Is(err, ErrLocked) {
			return nil, "", err
		}
		if err != nil {
			firstErr = errors.Join(firstErr, err)
			continue
		}
		// Clients with another environment find the socket by this note. If the disk is full, the
		// daemon serves all other clients without the note.
		if err := writeNote(filepath.Join(state, socketNote), path); err != nil && !errors.Is(err, ErrNoSpace) {
			l.Close()
			return nil, "", err
		}
		return l, path, nil
	}
	return nil, "", firstErr
}

func listenAt(dir, path string) (*net.UnixListener, error) {
	if err := ownDir(dir, true); err != nil {
		return nil, err
	}
	if _, err := os.Lstat(path); err == nil {
		if answers(path) {
			return nil, Errorf(ErrLocked, "cachebro status", "another store daemon answers at %s", path)
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("remove stale socket: %w", err)
		}
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, fmt.Errorf("listen: %w", err)
	}
	return l, nil
}

// answers reports whether a process accepts connections at path. A stopped (SIGSTOP) or busy daemon
// counts as answering, because the kernel accepts connections into its backlog. The lock of a
// killed daemon may be released an instant before its socket closes, so answers tries several
// times.
func answers(path string) bool {
	for try := 0; ; try++ {
		c, err := net.DialTimeout("unix", path, time.Second)
		if err == nil {
			c.Close()
		} else if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist) {
			return false
		}
		if try == 3 {
			return true
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Served reports whether a daemon accepts connections for root.
func Served(p Paths, root string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	c, err := connect(ctx, p, root)
	if err == nil {
		c.Close()
	}
	return !errors.Is(err, ErrNoDaemon)
}

func writeNote(path, text string) error {
	if b, err := os.ReadFile(path); err == nil && string(b) == text+"\n" {
		return nil
	}
	tmp := path + ".new"
	if err := os.WriteFile(tmp, []byte(text+"\n"), 0o600); err != nil {
		return stateError(filepath.Dir(path), err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("write into the state directory: %w", err)
	}
	return nil
}

// connect connects to the first of the project's sockets that accepts.
func connect(ctx context.Context, p Paths, root string) (*net.UnixConn, error) {
	var d net.Dialer
	var last error
	for _, path := range p.Sockets(root) {
		c, err := d.DialContext(ctx, "unix", path)
		if err == nil {
			return c.(*net.UnixConn), nil
		}
		if ctx.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, Errorf(ErrTimeout, "cachebro status", "connect to the store daemon: %v", err)
		}
		if !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, fs.ErrNotExist) {
			last = err
		}
	}
	if last != nil {
		return nil, Errorf(ErrNoDaemon, "cachebro status", "connect to the store daemon: %v", last)
	}
	return nil, Errorf(ErrNoDaemon, "cachebro mount "+root, "no store daemon is running for %s", root)
}

// Peer is the process at the other end of a connection, as the kernel reports it.
type Peer struct {
	PID int // 0 if the kernel does not report it
	UID uint32
}

// checkPeer returns an error for other users. The mode of the socket's directory already keeps them
// out, but a single directory mode is too weak a protection.
func checkPeer(c *net.UnixConn) (Peer, error) {
	p, err := peerOf(c)
	if err != nil {
		return p, Errorf(ErrForeign, "", "cannot tell who is at the other end of the socket: %v", err)
	}
	if p.UID != uint32(os.Getuid()) {
		return p, Errorf(ErrForeign, "run cachebro as the user who mounted the project",
			"the process at the other end of the socket runs as uid %d, not %d", p.UID, os.Getuid())
	}
	return p, nil
}
