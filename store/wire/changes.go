package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"time"
)

// mountd listens on a socket separate from the daemon's, and reports there what changed on the
// mount. Each "git status" asks there, so that a busy or killed daemon can neither delay the answer
// nor make it incomplete. Each connection carries one question:
//
//	question: u32 length, token NUL prefix
//	answer:   u32 length, next token NUL, then each path with a NUL; "/" alone:
//	          everything may have changed
//
// Three tokens are requests of other kinds:
//   - "daemon": mountd attaches to the daemon that has just started. The answer is empty.
//   - "settle": mountd spools the changes that bypassed the mount. The answer is empty.
//   - "mount": mountd mounts the project again for other users. The path in the answer is the
//     error, if any.
//
// Lengths are little-endian. A token is a point in time. An answer lists the changes since the
// token of the question, and gives the token for the next question. The prefix is a directory in
// the project. Paths are relative to it, and paths outside it are left out. An incomplete answer
// must be ignored.
const (
	changesSocket = ".changes"
	changesNote   = "changes-socket" // in the state directory; see socketNote
	maxChanges    = 64 << 20
	changesWait   = 5 * time.Second
)

// ListenChanges binds the socket. The caller holds the lock of the spool.
func ListenChanges(p Paths, root, state string) (*net.UnixListener, error) {
	var all error
	for _, dir := range p.socketDirs() {
		path := filepath.Join(dir, Key(root)+changesSocket)
		if len(path) > maxSocket {
			continue
		}
		l, err := listenAt(dir, path)
		if err == nil {
			err = writeNote(filepath.Join(state, changesNote), path)
			if err == nil {
				return l, nil
			}
			l.Close()
		}
		all = errors.Join(all, err)
	}
	return nil, fmt.Errorf("listen for questions about changes: %w", all)
}

// Tokens that do not ask for changes.
const (
	summons  = "daemon"
	settling = "settle"
	mounting = "mount"
)

// Answerers holds the functions that answer questions in mountd.
type Answerers struct {
	Changes  func(token string) (next string, paths []string, all bool)
	Summoned func() // called when a daemon wants mountd to attach
	Settle   func() // called to spool the changes that bypassed the mount
	Mount    func() error
}

// ServeChanges answers questions until l is closed.
func ServeChanges(l *net.UnixListener, on Answerers) {
	pause := acceptPause
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			time.Sleep(pause) // possibly out of descriptors
			pause = min(2*pause, time.Second)
			continue
		}
		pause = acceptPause
		go func() {
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(changesWait))
			if _, err := checkPeer(c); err != nil {
				return
			}
			q, err := readCounted(c, 64<<10)
			token, prefix, ok := strings.Cut(string(q), "\x00")
			if err != nil || !ok {
				return
			}
			_ = writeCounted(c, on.answer(token, prefix))
		}()
	}
}

func (on *Answerers) answer(token, prefix string) []byte {
	switch token {
	case summons:
		on.Summoned()
	case settling:
		on.Settle()
	case mounting:
		if err := on.Mount(); err != nil {
			return changesAnswer("cachebro:", "", []string{err.Error()}, false)
		}
	default:
		next, paths, all := on.Changes(token)
		return changesAnswer(next, prefix, paths, all)
	}
	return changesAnswer("cachebro:", "", nil, false)
}

func changesAnswer(next, prefix string, paths []string, all bool) []byte {
	b := append([]byte(next), 0)
	if all {
		return append(b, "/\x00"...)
	}
	if prefix != "" {
		prefix += "/"
	}
	for _, p := range paths {
		if p, ok := strings.CutPrefix(p, prefix); ok && p != "" {
			b = append(append(b, p...), 0)
		}
	}
	return b
}

// AskChanges asks the mountd that serves root for changes. The answer begins with a token.
func AskChanges(ctx context.Context, p Paths, root, token, prefix string) ([]byte, error) {
	c, err := dialChanges(ctx, p, root)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if end, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(end)
	}
	if _, err := checkPeer(c); err != nil {
		return nil, err
	}
	if err := writeCounted(c, []byte(token+"\x00"+prefix)); err != nil {
		return nil, err
	}
	a, err := readCounted(c, maxChanges)
	if err == nil && !strings.HasPrefix(string(a), "cachebro:") {
		err = Errorf(ErrInternal, "", "the answer has no token")
	}
	return a, err
}

// AttachMountd makes the mountd that serves root attach to the daemon, which has just started to
// listen. It returns ErrNoDaemon if no mountd serves root.
func AttachMountd(ctx context.Context, p Paths, root string) error {
	_, err := AskChanges(ctx, p, root, summons, "")
	return err
}

// Settle makes the mountd that serves root spool all changes that have bypassed the mount.
func Settle(ctx context.Context, p Paths, root string) error {
	_, err := AskChanges(ctx, p, root, settling, "")
	return err
}

// MountAgain makes a mountd that serves root for other users mount it again.
func MountAgain(ctx context.Context, p Paths, root string) error {
	a, err := AskChanges(ctx, p, root, mounting, "")
	if err != nil {
		return err
	}
	_, why, _ := strings.Cut(strings.TrimSuffix(string(a), "\x00"), "\x00")
	if why != "" {
		return Errorf(ErrInternal, "", "%s", why)
	}
	return nil
}

// Mounted reports whether a mountd serves root.
func Mounted(ctx context.Context, p Paths, root string) bool {
	c, err := dialChanges(ctx, p, root)
	if err == nil {
		c.Close()
	}
	return err == nil
}

func dialChanges(ctx context.Context, p Paths, root string) (*net.UnixConn, error) {
	var d net.Dialer
	last := errors.New("no place for a socket")
	for _, path := range p.sockets(root, Key(root)+changesSocket, changesNote) {
		c, err := d.DialContext(ctx, "unix", path)
		if err == nil {
			return c.(*net.UnixConn), nil
		}
		last = err
	}
	return nil, Errorf(ErrNoDaemon, "cachebro mount "+root, "no mount daemon can report what changed in %s: %v", root, last)
}

func writeCounted(w io.Writer, b []byte) error {
	if len(b) > maxChanges {
		return Errorf(ErrTooLarge, "", "%d bytes of changes", len(b))
	}
	_, err := w.Write(append(binary.LittleEndian.AppendUint32(make([]byte, 0, 4+len(b)), uint32(len(b))), b...))
	return err
}

func readCounted(r io.Reader, limit uint32) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n > limit {
		return nil, Errorf(ErrTooLarge, "", "%d bytes of changes", n)
	}
	b := make([]byte, n)
	_, err := io.ReadFull(r, b)
	return b, err
}
