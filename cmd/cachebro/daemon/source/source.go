package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	table "cachebro/fusefs/mounts"
	"cachebro/store"
	"cachebro/store/leaf/ignore"
	"cachebro/store/leaf/limits"
	"cachebro/store/onwire"
	"cachebro/store/wire"
)

// Source gives access to the project's files, bypassing the mount. It uses a directory descriptor
// that mountd sent or, if nothing is mounted, opens the directory itself.
type Source struct {
	root string

	classes classes
	linked  linkedTable

	// mu guards the fields below.
	mu      sync.Mutex
	dir     *Dir
	from    string        // "mountd", or "root" if Source opened it
	is      os.FileInfo   // identity of the directory that was set last
	arrived chan struct{} // closed and replaced when a directory is set
	idle    *time.Timer   // closes a directory that Source opened; nil if there was none yet
}

// linger is how long a directory that Source opened itself stays open after its last use. While it
// is open, its file system cannot be unmounted. But opening it for each file of a listing would
// cost as much as reading the file's stat.
const linger = 250 * time.Millisecond

// Dir is an open directory. It counts its users, so that replacing it does not close a descriptor
// in use.
type Dir struct {
	File *os.File
	refs int // guarded by source.mu
}

// coverWait bounds the wait for mountd's descriptor while a cachebro mount covers the root.
const coverWait = 3 * time.Second

// New returns the source for a root, without opening it. o and the project's own files decide the
// class of a path.
func New(root string, o ignore.Options) *Source {
	s := &Source{root: root, classes: classes{o: o}, arrived: make(chan struct{})}
	if !covered(root) {
		is, err := os.Lstat(root)
		if err == nil && !covered(root) { // nothing was mounted over it in the meantime, so this is the directory itself
			s.is = is
		}
	}
	return s
}

// Set takes ownership of a descriptor from mountd.
func (s *Source) Set(f *os.File, from string) {
	s.mu.Lock()
	old := s.dir
	s.dir, s.from = &Dir{File: f, refs: 1}, from
	s.is, _ = f.Stat()
	close(s.arrived)
	s.arrived = make(chan struct{})
	s.mu.Unlock()
	s.Release(old)
}

// Release ends a use of d that began with Acquire or Set. It ignores nil.
func (s *Source) Release(d *Dir) {
	if d == nil {
		return
	}
	s.mu.Lock()
	d.refs--
	last := d.refs == 0
	s.mu.Unlock()
	if last {
		d.File.Close()
	}
}

// Gone returns an error if the project's directory no longer exists or has been replaced by
// another. It returns nil while a cachebro mount covers the directory, and while a mountd serves the
// project: if a directory above the mountpoint is renamed, the mount moves along and still works. It
// also returns nil if the directory did not exist at the start, because a daemon may be started for
// the history of a deleted project.
func (s *Source) Gone() error {
	s.mu.Lock()
	was, served := s.is, s.servedLocked()
	s.mu.Unlock()
	if was == nil || served || covered(s.root) {
		return nil
	}
	return wire.FileDiffers(s.root, was)
}

// servedLocked reports whether the directory is the one that a mountd sent. The caller holds mu.
func (s *Source) servedLocked() bool { return s.from == "mountd" && s.dir != nil }

// Drop closes and forgets the descriptor.
func (s *Source) Drop() {
	s.mu.Lock()
	old := s.dir
	s.dir = nil
	if s.idle != nil {
		s.idle.Stop()
	}
	s.mu.Unlock()
	s.Release(old)
	s.classes.close()
}

// closeIdle closes a directory that Source opened itself and that has not been used for linger.
func (s *Source) closeIdle() {
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
	s.Drop()
}

// Unmounted drops the descriptor that a mountd had sent. It keeps the descriptor if the daemon's
// mount namespace has a copy of the mount, because the files then cannot be reached otherwise.
func (s *Source) Unmounted() {
	if covered(s.root) {
		return
	}
	s.mu.Lock()
	theirs := s.servedLocked()
	s.mu.Unlock()
	if theirs {
		s.Drop()
	}
}

// Acquire returns the directory, which the caller releases. If a cachebro mount covers the
// root, Acquire waits up to coverWait for mountd to send its descriptor.
func (s *Source) Acquire(ctx context.Context) (*Dir, error) {
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
			if !covered(s.root) { // nothing was mounted over it in the meantime
				s.mu.Lock()
				if s.dir == nil {
					s.dir, s.from = &Dir{File: f, refs: 1}, "root"
					if s.is == nil {
						s.is, _ = f.Stat()
					}
					if s.idle == nil {
						s.idle = time.AfterFunc(linger, s.closeIdle)
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
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-arrived:
		case <-time.After(min(left, 100*time.Millisecond)):
		}
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

// Open opens a file for reading. It follows symbolic links that stay inside the project. Its
// errors are sentinels of wire.
func (s *Source) Open(ctx context.Context, p store.Path) (*os.File, store.Stat, error) {
	d, err := s.Acquire(ctx)
	if err != nil {
		return nil, store.Stat{}, err
	}
	defer s.Release(d)
	f, err := OpenBeneath(d.File, string(p), true)
	if err != nil {
		return nil, store.Stat{}, sourceError(p, err)
	}
	st, err := StatOf(f)
	if err != nil {
		f.Close()
		return nil, st, sourceError(p, err)
	}
	switch st.Mode & syscall.S_IFMT {
	case syscall.S_IFREG:
		return f, st, nil
	case syscall.S_IFDIR:
		err = wire.Errorf(wire.ErrIsDir, "name a file in it", "%s is a directory", onwire.Display(p))
	default:
		err = wire.Errorf(wire.ErrNotRegular, "", "%s is not a regular file", onwire.Display(p))
	}
	f.Close()
	return nil, st, err
}

// RealName returns the path, without symbolic links, of a file that Open returned.
func (s *Source) RealName(ctx context.Context, f *os.File) (store.Path, bool) {
	d, err := s.Acquire(ctx)
	if err != nil {
		return "", false
	}
	defer s.Release(d)
	top, err := nameOf(d.File)
	if err != nil {
		return "", false
	}
	name, err := nameOf(f)
	if err != nil {
		return "", false
	}
	rel, ok := onwire.Below(name, top)
	return store.Path(rel), ok
}

// Resolved returns the path of the file or directory that p leads to if its symbolic links are
// followed. It returns p if that is something else, does not exist, or is outside of the project.
func (s *Source) Resolved(ctx context.Context, p store.Path) store.Path {
	d, err := s.Acquire(ctx)
	if err != nil {
		return p
	}
	defer s.Release(d)
	st, _, err := LstatBeneath(d.File, string(p))
	if kind := st.Mode & syscall.S_IFMT; err != nil || kind != syscall.S_IFLNK && kind != syscall.S_IFREG && kind != syscall.S_IFDIR {
		return p // opening a FIFO would wake up its writer
	}
	f, err := OpenBeneath(d.File, string(p), true)
	if err != nil {
		return p
	}
	defer f.Close()
	real, ok := s.RealName(ctx, f)
	if !ok {
		return p
	}
	return real
}

// Lstat returns the stat of a path without following its last component.
func (s *Source) Lstat(ctx context.Context, p store.Path) (store.Stat, error) {
	d, err := s.Acquire(ctx)
	if err != nil {
		return store.Stat{}, err
	}
	defer s.Release(d)
	st, _, err := LstatBeneath(d.File, string(p))
	if err != nil {
		return st, sourceError(p, err)
	}
	return st, nil
}

// ReadStable reads a whole open file and returns the stat that belongs to the content. If the file
// is being written, it retries a few times.
func ReadStable(f *os.File, st store.Stat) ([]byte, store.Stat, error) {
	for try := 0; ; try++ {
		if st.Size > limits.Content {
			return nil, st, wire.Errorf(wire.ErrTooLarge, "read it with offset and limit through another tool", "file of %d bytes is larger than %d", st.Size, limits.Content)
		}
		b := make([]byte, st.Size, st.Size+1)
		n, err := f.ReadAt(b[:cap(b)], 0) // reading one byte more shows whether the file has grown
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, st, err
		}
		after, serr := StatOf(f)
		if serr != nil {
			return nil, st, serr
		}
		if n == int(st.Size) && SameContent(st, after) {
			return b[:n], after, nil
		}
		if try == 4 { // the file is written all the time, as a log is, so accept any content
			return b[:min(n, cap(b))], after, nil
		}
		st = after
	}
}

// SameContent reports whether two stats of a path prove that its content is the same. The stats
// cannot show a change within one clock tick.
func SameContent(a, b store.Stat) bool {
	return store.InodeOf(a) == store.InodeOf(b) && a.Size == b.Size && a.Ctime == b.Ctime && a.Mtime == b.Mtime
}

func sourceError(p store.Path, err error) error {
	name := onwire.Display(p)
	switch {
	case errors.Is(err, syscall.EXDEV), errors.Is(err, errEscapes):
		return wire.Errorf(wire.ErrOutside, "", "%s leads out of the project", name)
	case errors.Is(err, syscall.ELOOP):
		return wire.Errorf(wire.ErrOutside, "", "%s goes through a symbolic link that cannot be followed", name)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ENAMETOOLONG):
		return wire.Errorf(wire.ErrNotFound, "cachebro log "+onwire.ShellName(p)+" shows whether it was there before", "%s does not exist", name)
	case errors.Is(err, fs.ErrPermission):
		return wire.Errorf(wire.ErrPermission, "", "%s: permission denied", name)
	case errors.Is(err, syscall.ENXIO):
		return wire.Errorf(wire.ErrNotRegular, "", "%s is not a regular file", name)
	}
	return fmt.Errorf("%s: %w", name, err)
}

// covered reports whether a cachebro mount covers root. It reads the mount table and does not
// access the mount, which may hang.
func covered(root string) bool {
	all, err := table.Mounts()
	top, ok := table.At(all, root)
	return err == nil && ok && top.Type == table.FSType
}
