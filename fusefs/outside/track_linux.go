//go:build linux && (amd64 || arm64)

package outside

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"cachebro/fusefs"
	"cachebro/fusefs/capture"
	"cachebro/fusefs/sys"
	"cachebro/store/leaf/event"
	"cachebro/store/leaf/gitdir"
	"cachebro/store/leaf/ignore"
	"cachebro/store/leaf/limits"
	"cachebro/store/leaf/spool"
	"cachebro/store/wire"

	"golang.org/x/sys/unix"
)

// track is one history that changes are written to.
type track struct {
	root    string // absolute; "/" for the user's own history
	dir     *os.File
	writer  *spool.Writer
	matcher *ignore.Matcher
	capture *capture.Capture

	ids   uint64
	files map[event.Inode]*file

	links     map[event.Inode][]string // names of files with several names, found by the last search
	linksNext time.Time                // the earliest time for the next search
}

// linked returns the names that lead to a file with several names. The search for them goes through
// the whole directory tree of the history, so it is repeated only once in a while.
func (t *track) linked(of event.Inode) []string {
	if began := time.Now(); began.After(t.linksNext) {
		t.links = map[event.Inode][]string{}
		looked := 0
		_ = filepath.WalkDir(t.root, func(path string, d fs.DirEntry, err error) error {
			if looked++; looked > maxExamined {
				return filepath.SkipAll
			}
			if err != nil {
				return nil // an unreadable path is not recorded
			}
			if d.IsDir() {
				if t.isUnrecorded(path, true) && path != t.root {
					return filepath.SkipDir
				}
				return nil
			}
			if st, exists := lstat(path); exists && st.Nlink > 1 {
				t.links[event.InodeOf(st)] = append(t.links[event.InodeOf(st)], path)
			}
			return nil
		})
		t.linksNext = time.Now().Add(20 * time.Since(began))
	}
	return t.links[of]
}

func openTrack(root string, o Options) (_ *track, err error) {
	state, err := o.Paths.MakeState(root)
	if err != nil {
		return nil, err
	}
	t := &track{root: root, files: map[event.Inode]*file{}}
	defer func() {
		if err != nil {
			t.drop()
		}
	}()
	t.dir, err = os.Open(root)
	if err != nil {
		return nil, err
	}
	t.writer, err = spool.OpenWriter(wire.SpoolDir(state), spool.Options{})
	if err != nil {
		return nil, err
	}
	t.matcher, err = ignore.New(t.dir, o.Ignore)
	if err != nil {
		return nil, fmt.Errorf("read the ignore rules: %w", err)
	}
	t.capture = capture.New(capture.Options{Spool: t.writer, Logger: o.Logger, Matcher: t.matcher, Root: t.dir, Git: wire.GitDir(state), Version: o.Version, Source: root, AtOnce: true, MaxSpool: limits.NetSpool,
		OnRecord: func() { o.OnRecord(root) }})
	return t, nil
}

func (t *track) drain() error {
	ctx, cancel := context.WithTimeout(context.Background(), drainLimit)
	defer cancel()
	return t.capture.Close(ctx)
}

func (t *track) drop() {
	if t.writer != nil {
		_ = t.writer.Close()
	}
	if t.matcher != nil {
		_ = t.matcher.Close()
	}
	if t.dir != nil {
		t.dir.Close()
	}
}

func (t *track) rel(path string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path, t.root), "/")
}

func (t *track) abs(rel string) string { return filepath.Join(t.root, rel) }

func (t *track) class(path string, dir bool) ignore.Class { return t.matcher.Class(t.rel(path), dir) }

// isUnrecorded reports whether changes of a path are not recorded.
func (t *track) isUnrecorded(path string, dir bool) bool {
	rel := t.rel(path)
	if t.capture.Class(rel, dir) != ignore.Excluded {
		return false
	}
	_, _, git := gitdir.Split(rel)
	return !git || !dir && passing(rel)
}

func (t *track) fileOf(path string, st event.Stat) *file {
	key := event.InodeOf(st)
	f := t.files[key]
	if f == nil {
		t.ids++
		f = &file{track: t, id: t.ids, inode: key}
		t.files[key] = f
	}
	f.addName(t.rel(path))
	return f
}

// file is a fusefs.File that is opened by name.
type file struct {
	track *track
	id    uint64
	inode event.Inode
	mark  atomic.Uint32

	// mu guards the fields below.
	mu    sync.Mutex
	paths []string // relative to the root
	next  string   // the name that the file gets by a rename in progress
}

var _ fusefs.File = (*file)(nil)

func (f *file) ID() uint64 { return f.id }

func (f *file) Path() string {
	if all := f.Paths(1); len(all) > 0 {
		return all[0]
	}
	return ""
}

func (f *file) Paths(most int) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if most > 0 && most < len(f.paths) {
		return slices.Clone(f.paths[:most])
	}
	return slices.Clone(f.paths)
}

func (f *file) NamesSeen() uint32 { return 0 }

func (f *file) Mark() *atomic.Uint32 { return &f.mark }

func (f *file) addName(rel string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next == rel {
		f.next = ""
	}
	if !slices.Contains(f.paths, rel) {
		f.paths = append(f.paths, rel)
	}
}

// otherName returns a name other than skip that leads to the file, or "" if none is known.
func (f *file) otherName(skip string) string {
	for _, p := range f.Paths(0) {
		if p == skip {
			continue
		}
		if st, ok := lstat(f.track.abs(p)); ok && event.InodeOf(st) == f.inode {
			return p
		}
	}
	return ""
}

func (f *file) dropName(rel string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.paths = slices.DeleteFunc(f.paths, func(p string) bool { return p == rel })
}

// moving stores the name that the file gets by a rename in progress.
func (f *file) moving(rel string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next = rel
}

// moveNames changes the file's names in a renamed directory. If both is set, two directories were
// exchanged.
func (f *file) moveNames(from, to string, both bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, p := range f.paths {
		f.paths[i] = shifted(p, from, to, both)
	}
}

func (f *file) candidates() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := slices.Clone(f.paths)
	if f.next != "" {
		all = append(all, f.next)
	}
	return all
}

func (f *file) open(flags int) (int, error) {
	err := error(syscall.ESTALE)
	for _, p := range f.candidates() {
		name := f.track.abs(p)
		fd, oerr := unix.Open(name, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOATIME, 0)
		if oerr == unix.EPERM { // only the owner may read without changing the access time
			fd, oerr = unix.Open(name, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		}
		if oerr != nil {
			err = oerr
			continue
		}
		var sx sys.Stat
		if sys.StatFD(fd, &sx) == nil && event.InodeOf(sx.Stat) == f.inode {
			return fd, nil
		}
		unix.Close(fd)
	}
	return -1, &os.PathError{Op: "open", Path: f.Path(), Err: err}
}

func (f *file) Open() (int, error) { return f.open(unix.O_RDONLY) }

func (f *file) Stat() (event.Stat, error) {
	for _, p := range f.candidates() {
		if st, ok := lstat(f.track.abs(p)); ok && event.InodeOf(st) == f.inode {
			return st, nil
		}
	}
	return event.Stat{}, &os.PathError{Op: "stat", Path: f.Path(), Err: syscall.ESTALE}
}

func (f *file) At(fn func(path string) error) error {
	fd, err := f.open(unix.O_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return fn(fmt.Sprintf("/proc/self/fd/%d", fd))
}

// lstat returns the attributes of a path, or false if it does not exist or is not accessible.
func lstat(path string) (event.Stat, bool) {
	var sx sys.Stat
	if err := sys.StatAt(unix.AT_FDCWD, path, &sx); err != nil {
		return event.Stat{}, false
	}
	return sx.Stat, true
}

func kindOf(st event.Stat) uint32    { return st.Mode & unix.S_IFMT }
func sameInode(a, b event.Stat) bool { return event.InodeOf(a) == event.InodeOf(b) }
func unchanged(a, b event.Stat) bool {
	times := a.Ctime == b.Ctime && a.Mtime == b.Mtime
	return times && sameInode(a, b) && a.Size == b.Size && a.Mode == b.Mode
}

// target returns where a symbolic link points, or "" for anything else.
func target(path string, st event.Stat) string {
	if kindOf(st) != unix.S_IFLNK {
		return ""
	}
	to, _ := os.Readlink(path)
	return to
}

const drainLimit = 60 * time.Second
