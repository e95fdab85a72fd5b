package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	table "cachebro/fusefs/mounts"
	"cachebro/store"
	"cachebro/store/wire"
	"cachebro/store/wire/place"
	"cachebro/store/wire/visible"
)

// source is the project's files themselves, never as seen through a mount: a
// directory descriptor that mountd sent, or, where nothing is mounted, one of
// our own. A mountd that hangs must not hang us.
type source struct {
	root string

	// mu guards what follows.
	mu      sync.Mutex
	dir     *sharedDir
	from    string        // "mountd" or "root"
	is      os.FileInfo   // of the directory that was set last
	arrived chan struct{} // closed and replaced when a directory was set
	idle    *time.Timer   // lets go of a directory of our own; nil: none was opened yet

	left func() // called without the lock when the directory was let go
}

// linger is how long a directory of our own is kept after its last use: it keeps
// the file system below from being unmounted, and to open it for each file of a
// listing would cost as much as the look.
const linger = 250 * time.Millisecond

// sharedDir counts users, so that replacing it does not close a descriptor in use.
type sharedDir struct {
	f    *os.File
	refs int // guarded by source.mu
}

// coverWait bounds the wait for mountd where our own mount covers the root.
const coverWait = 3 * time.Second

func newSource(root string) *source {
	s := &source{root: root, arrived: make(chan struct{}), left: func() {}}
	if !covered(root) {
		is, err := os.Lstat(root)
		if err == nil && !covered(root) { // nor was it mounted over at this very moment
			s.is = is
		}
	}
	return s
}

// set takes a descriptor over from mountd.
func (s *source) set(f *os.File, from string) {
	s.mu.Lock()
	old := s.dir
	s.dir, s.from = &sharedDir{f: f, refs: 1}, from
	s.is, _ = f.Stat()
	close(s.arrived)
	s.arrived = make(chan struct{})
	s.mu.Unlock()
	s.release(old)
}

func (s *source) release(d *sharedDir) {
	if d == nil {
		return
	}
	s.mu.Lock()
	d.refs--
	last := d.refs == 0
	s.mu.Unlock()
	if last {
		d.f.Close()
	}
}

// gone says that the project's directory is not there any more, or another one.
// A mount of ours that covers it keeps it, and a daemon that was started for the
// history of a project that is gone serves that.
func (s *source) gone() error {
	s.mu.Lock()
	was := s.is
	s.mu.Unlock()
	if was == nil || covered(s.root) {
		return nil
	}
	return place.Differs(s.root, was)
}

// drop forgets the descriptor.
func (s *source) drop() {
	s.mu.Lock()
	old := s.dir
	s.dir = nil
	if s.idle != nil {
		s.idle.Stop()
	}
	s.mu.Unlock()
	s.release(old)
	s.left()
}

// letGo forgets a directory of our own that nobody has used for a moment.
func (s *source) letGo() {
	s.mu.Lock()
	switch {
	case s.from != "root" || s.dir == nil:
		s.mu.Unlock()
		return
	case s.dir.refs > 1:
		s.idle.Reset(linger)
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	s.drop()
}

// unmounted forgets the descriptor that a mountd had sent.
func (s *source) unmounted() {
	s.mu.Lock()
	theirs := s.from == "mountd" && s.dir != nil
	s.mu.Unlock()
	if theirs {
		s.drop()
	}
}

// acquire returns the directory; the caller releases it. Where a mount of ours
// covers the root it waits for mountd to send its own, coverWait at most.
func (s *source) acquire(ctx context.Context) (*sharedDir, error) {
	deadline := time.Now().Add(coverWait)
	for {
		s.mu.Lock()
		if d := s.dir; d != nil {
			d.refs++
			if s.from == "root" {
				s.idle.Reset(linger)
			}
			s.mu.Unlock()
			return d, nil
		}
		arrived := s.arrived
		s.mu.Unlock()
		if !covered(s.root) {
			f, err := openRoot(s.root)
			if err != nil {
				return nil, err
			}
			if !covered(s.root) { // or it was mounted over at this very moment
				s.mu.Lock()
				if s.dir == nil {
					s.dir, s.from = &sharedDir{f: f, refs: 1}, "root"
					if s.is == nil {
						s.is, _ = f.Stat()
					}
					if s.idle == nil {
						s.idle = time.AfterFunc(linger, s.letGo)
					}
					f = nil
				}
				s.mu.Unlock()
			}
			if f != nil {
				f.Close()
			}
			continue
		}
		left := time.Until(deadline)
		if left <= 0 {
			return nil, wire.Errorf(wire.ErrTimeout, "cachebro status", "the project is mounted, but the mount process has not attached yet")
		}
		t := time.NewTimer(min(left, 100*time.Millisecond))
		select {
		case <-ctx.Done():
			t.Stop()
			return nil, ctx.Err()
		case <-arrived:
		case <-t.C:
		}
		t.Stop()
	}
}

func openRoot(root string) (*os.File, error) {
	f, err := os.Open(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, wire.Errorf(wire.ErrNotFound, "cachebro relocate, if the project was moved", "the project's root %s does not exist", root)
	}
	if err != nil {
		return nil, fmt.Errorf("open the project's root: %w", err)
	}
	return f, nil
}

// open opens a file for reading. Symbolic links are followed as long as they
// stay inside the project. Errors are sentinels of wire.
func (s *source) open(ctx context.Context, p store.Path) (*os.File, store.Stat, error) {
	d, err := s.acquire(ctx)
	if err != nil {
		return nil, store.Stat{}, err
	}
	defer s.release(d)
	f, err := openBeneath(d.f, string(p), true)
	if err != nil {
		return nil, store.Stat{}, sourceError(p, err)
	}
	st, err := statOf(f)
	if err != nil {
		f.Close()
		return nil, st, sourceError(p, err)
	}
	switch st.Mode & syscall.S_IFMT {
	case syscall.S_IFREG:
		return f, st, nil
	case syscall.S_IFDIR:
		err = wire.Errorf(wire.ErrIsDir, "name a file in it", "%s is a directory", display(p))
	default:
		err = wire.Errorf(wire.ErrNotRegular, "", "%s is not a regular file", display(p))
	}
	f.Close()
	return nil, st, err
}

// realName is the path, without symbolic links, of an open file of ours.
func (s *source) realName(ctx context.Context, f *os.File) (store.Path, bool) {
	d, err := s.acquire(ctx)
	if err != nil {
		return "", false
	}
	defer s.release(d)
	top, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", d.f.Fd()))
	if err != nil {
		return "", false
	}
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	if err != nil || strings.HasSuffix(name, " (deleted)") {
		return "", false
	}
	rel, ok := below(name, top)
	return store.Path(rel), ok
}

// lstat describes a path without following its last component.
func (s *source) lstat(ctx context.Context, p store.Path) (store.Stat, error) {
	d, err := s.acquire(ctx)
	if err != nil {
		return store.Stat{}, err
	}
	defer s.release(d)
	st, _, err := lstatBeneath(d.f, string(p))
	if err != nil {
		return st, sourceError(p, err)
	}
	return st, nil
}

// maxContent is the largest file that is read into memory (store.Options.MaxBlob).
const maxContent = 32 << 20

// readStable reads an open file whole, and says what its stat was if no write
// came in between; it tries a few times, for a file that is being written.
func readStable(f *os.File, st store.Stat) ([]byte, store.Stat, error) {
	for try := 0; ; try++ {
		if st.Size > maxContent {
			return nil, st, wire.Errorf(wire.ErrTooLarge, "read it with offset and limit through another tool", "file of %d bytes is larger than %d", st.Size, maxContent)
		}
		b := make([]byte, st.Size, st.Size+1)
		n, err := f.ReadAt(b[:cap(b)], 0) // one byte more: has it grown?
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, st, err
		}
		after, serr := statOf(f)
		if serr != nil {
			return nil, st, serr
		}
		if n == int(st.Size) && sameContent(st, after) {
			return b[:n], after, nil
		}
		if try == 4 { // a log that never rests: what was read is some content it had
			return b[:min(n, cap(b))], after, nil
		}
		st = after
	}
}

// sameContent reports whether two stats of one path can only be of the same
// content, but for changes within one clock tick.
func sameContent(a, b store.Stat) bool {
	return a.Ino == b.Ino && a.Dev == b.Dev && a.Birth == b.Birth && a.Size == b.Size && a.Ctime == b.Ctime && a.Mtime == b.Mtime
}

func sourceError(p store.Path, err error) error {
	name := display(p)
	switch {
	case errors.Is(err, syscall.EXDEV), errors.Is(err, errEscapes):
		return wire.Errorf(wire.ErrOutside, "", "%s leads out of the project", name)
	case errors.Is(err, syscall.ELOOP):
		return wire.Errorf(wire.ErrOutside, "", "%s goes through a symbolic link that cannot be followed", name)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ENAMETOOLONG):
		return wire.Errorf(wire.ErrNotFound, "cachebro log "+shellName(p)+" shows whether it was there before", "%s does not exist", name)
	case errors.Is(err, fs.ErrPermission):
		return wire.Errorf(wire.ErrPermission, "", "%s: permission denied", name)
	case errors.Is(err, syscall.ENXIO):
		return wire.Errorf(wire.ErrNotRegular, "", "%s is not a regular file", name)
	}
	return fmt.Errorf("%s: %w", name, err)
}

// display makes a path safe in a sentence: what acts on a terminal, or ends a line,
// is data, not layout.
func display(p store.Path) string {
	if p == "" {
		return "."
	}
	return visible.Name(string(p))
}

func shellName(p store.Path) string { return visible.Arg(cmp.Or(string(p), ".")) }

// covered reports whether a mount of ours lies on root. It reads the mount
// table instead of asking the mount, which may hang.
func covered(root string) bool {
	all, err := table.Mounts()
	top, ok := table.At(all, root)
	return err == nil && ok && top.Type == table.FSType
}
