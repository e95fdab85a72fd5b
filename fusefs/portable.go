//go:build portable || darwin

package fusefs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"cachebro/fusefs/sys"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// On this system, no thread takes on another user's identity. All changes of the source are made as
// the user who mounted it, even changes by root.

type creds struct {
	uid  uint32
	root bool
}

func ownCreds() creds {
	uid := uint32(os.Geteuid())
	return creds{uid: uid, root: uid == 0}
}

// asCaller calls f, which makes a file in the source. The file belongs to the user who mounted the
// source. All other users except root get EACCES.
func (o *contents) asCaller(in *fuse.InHeader, f func() error) error {
	if in.Uid != o.us.uid && in.Uid != 0 {
		return unix.EACCES
	}
	return f()
}

func noReserves() {}

func (o *namespace) forCaller(_ *fuse.InHeader, _ bool, f func() error) error { return f() }

// likeCaller calls f, which changes the inode n. The source clears set-id bits as if the user who
// mounted it had made the change. A notification makes the kernel show the new mode.
func (o *namespace) likeCaller(n *inode, at sys.Ref, _ *fuse.InHeader, _ bool, f func() error) error {
	var sx sys.Stat
	if sys.StatRef(at, &sx) != nil || sx.Mode&(unix.S_ISUID|unix.S_ISGID) == 0 {
		return f()
	}
	err := f()
	o.notifier.attrs(n.id)
	return err
}

// POSIX defines no position in a directory whose descriptor was closed, and Darwin requires a
// handle in any case. So a directory is read completely when a reader begins, and the offset in a
// request is an index into those entries.

// streams holds the open directories, by handle.
type streams struct {
	mu   sync.Mutex // guards last, open
	last uint64
	open map[uint64]*reading
}

// reading holds the entries that a directory had when a process began to read it.
type reading struct {
	mu    sync.Mutex // guards the fields below
	begun bool
	all   []fuse.DirEntry
	fd    int // descriptor of the directory; -1 before begin
}

func (r *reading) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fd >= 0 {
		unix.Close(r.fd)
		r.fd = -1
	}
}

func (s *streams) get(fh uint64) *reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[fh]
}

func (s *streams) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.open {
		r.close()
	}
	s.open = nil
}

// OpenDir makes a handle. It does not read the directory yet, because many processes open a
// directory only as their working directory.
func (o *namespace) OpenDir(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	if _, st := o.node(in.NodeId); !st.Ok() {
		return st
	}
	s := &o.streams
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[uint64]*reading{}
	}
	s.last++
	s.open[s.last] = &reading{fd: -1}
	out.Fh = s.last
	return fuse.OK
}

// ReleaseDir ends a handle.
func (o *namespace) ReleaseDir(in *fuse.ReleaseIn) {
	s := &o.streams
	s.mu.Lock()
	r := s.open[in.Fh]
	delete(s.open, in.Fh)
	s.mu.Unlock()
	if r != nil {
		r.close()
	}
}

// begin reads directory n from its beginning.
func (r *reading) begin(o *overlay, n *inode) error {
	d, err := o.dir(n)
	if err != nil {
		return err
	}
	fd, err := sys.Open(d.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	d.release()
	if err != nil {
		return err
	}
	if r.fd >= 0 {
		unix.Close(r.fd)
	}
	r.fd, r.begun = fd, true
	r.all, err = allEntries(func(buf []byte) (int, error) { return sys.Dirents(fd, buf) })
	return err
}

const (
	firstRead = 32 << 10
	maxRead   = 16 << 20
)

// allEntries reads a directory to its end. It doubles the buffer with each read. On Darwin, each
// read goes through all earlier entries again (x/sys imitates getdirentries(2) with readdir(3)), so
// reads of equal size would take quadratic time.
func allEntries(read func(buf []byte) (int, error)) (all []fuse.DirEntry, err error) {
	for buf := make([]byte, firstRead); ; buf = make([]byte, min(2*len(buf), maxRead)) {
		l, err := read(buf)
		if err != nil || l == 0 {
			return all, err
		}
		for rest := buf[:l]; len(rest) > 0; {
			e, size := direntOf(rest)
			rest = rest[size:]
			all = append(all, e)
		}
	}
}

// readDir calls add with each entry from in.Offset on, until add returns false because the reply is
// full.
func (o *overlay) readDir(in *fuse.ReadIn, add func(n *inode, dir int, e fuse.DirEntry) bool) fuse.Status {
	n, st := o.node(in.NodeId)
	if !st.Ok() {
		return st
	}
	r := o.streams.get(in.Fh)
	if r == nil {
		return fuse.EBADF
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if in.Offset == 0 || !r.begun {
		if err := r.begin(o, n); err != nil {
			return status(err)
		}
	}
	hides := o.hiddenName != "" && n.LastPath() == o.hiddenDir
	for at := in.Offset; at < uint64(len(r.all)); at++ {
		e := r.all[at]
		if hides && o.hidden(n, e.Name) {
			continue
		}
		e.Off = at + 1
		if !add(n, r.fd, e) {
			break
		}
	}
	return fuse.OK
}

// This file makes the mount options for macFUSE and parses its replies. With the build tag
// "portable", this file is also compiled on Linux, for its tests.

// macOptions returns the mount options.
//
//   - fsname identifies our mounts in the mount table.
//   - noappledouble forbids the files ._NAME and .DS_Store. The mount supports extended
//     attributes, so noapplexattr is not needed.
//   - local makes Xcode and the Trash treat the mount as a disk, not a network volume.
//   - nobrowse hides the mount from the Finder's list of volumes and from Spotlight.
//   - daemon_timeout=0 allows requests that take more than a minute.
func macOptions(opt *Options) []string {
	source := opt.Source.Name()
	o := []string{
		"fsname=" + escape(fsSubtype+":"+source), "volname=" + escape(filepath.Base(source)),
		"local", "nobrowse", "noappledouble", "default_permissions", "nosuid", "nodev",
		"daemon_timeout=0", fmt.Sprintf("iosize=%d", maxRequest),
	}
	if opt.AllowOther {
		o = append(o, "allow_other")
	}
	if opt.ReadOnly {
		o = append(o, "ro")
	}
	return o
}

// maxXattr limits the size of an extended attribute that is set in pieces.
const maxXattr = 64 << 20

func readXattr(get func(dest []byte) (int, error)) ([]byte, error) {
	n, err := get(nil)
	if err != nil || n == 0 {
		return nil, err
	}
	value := make([]byte, n)
	n, err = get(value)
	return value[:max(n, 0)], err
}

// piece copies the value of an extended attribute, from position on, to dest and returns the number
// of bytes. If dest is empty, it returns the number of bytes available.
func piece(position uint32, dest []byte, get func(dest []byte) (int, error)) (int, error) {
	value, err := readXattr(get)
	if err != nil {
		return 0, err
	}
	rest := value[min(int(position), len(value)):]
	switch {
	case len(dest) == 0:
		return len(rest), nil
	case len(rest) > len(dest):
		return 0, unix.ERANGE
	}
	return copy(dest, rest), nil
}

// patched returns an extended attribute's value in which data replaces the bytes at position. It is
// needed because the system calls on descriptors can set only the whole value.
func patched(position uint32, data []byte, get func(dest []byte) (int, error)) ([]byte, error) {
	if int64(position)+int64(len(data)) > maxXattr {
		return nil, unix.E2BIG
	}
	value, err := readXattr(get)
	if err != nil && status(err) != fuse.ENOATTR {
		return nil, err
	}
	if more := int(position) + len(data) - len(value); more > 0 {
		value = append(value, make([]byte, more)...)
	}
	copy(value[position:], data)
	return value, nil
}

// Hints for problems with macFUSE.
var (
	errMacFUSE = errors.New("macFUSE is not installed, so nothing can be mounted (reads, hooks and search work without it): " +
		"brew install --cask macfuse, or https://macfuse.github.io")
	errExtension = errors.New("macOS does not let macFUSE's kernel extension run: " +
		"allow it in System Settings, Privacy & Security, and restart (on Apple silicon, first choose reduced security in the recovery system)")
	errFSKit = errors.New("this macFUSE has only its FSKit backend, which gives cachebro no device descriptor: " +
		"enable the kernel backend (macFUSE in System Settings), and mount again")
)

// macError makes one error from the mount program's output and exit status.
func macError(output string, err error) error {
	msg := strings.Join(strings.Fields(output), " ")
	low := strings.ToLower(msg)
	has := func(any ...string) bool {
		return slices.ContainsFunc(any, func(s string) bool { return strings.Contains(low, s) })
	}
	switch {
	case has("fskit", "file system extension", "file system module"):
		return fmt.Errorf("%w (%s)", errFSKit, msg)
	case has("kernel extension", "not loaded", "failed to load", "could not be loaded", "system extension", "file system is not available"):
		return fmt.Errorf("%w (%s)", errExtension, msg)
	case has("busy", "already mounted", "itself on a macfuse volume", "itself on a osxfuse volume"):
		return fmt.Errorf("%w: %s", ErrBusy, msg)
	case msg == "":
		return err
	}
	return fmt.Errorf("%s: %w", msg, err)
}

// uncached always returns false on this system; see locks_linux.go.
func (n *inode) uncached() bool { return false }

// forwardsLocks is false, because without OFD locks the server cannot take a process's locks on the
// source. So the kernel handles the locks, and a lock excludes only other processes on the mount.
const forwardsLocks = false

type locking struct {
	answer    func(unique uint64, st fuse.Status)
	releasing func() bool
}

func (o *overlay) unlockOwner(*handle, uint64)                                   {}
func (o *overlay) unlockHandle(*handle)                                          {}
func (o *overlay) interrupted(uint64) bool                                       { return false }
func (o *overlay) endLocks()                                                     {}
func (o *overlay) lockDescriptors(func(key uint64, fd int))                      {}
func (o *overlay) restoreLocks([]uint32, map[uint64]*inode, map[uint64]*os.File) {}
