//go:build linux && (amd64 || arm64)

package outside

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"cachebro/fusefs/mounts"
	"cachebro/fusefs/sys"
	"cachebro/store/leaf/event"
	"cachebro/store/leaf/notifier"
	"cachebro/store/leaf/procfs"

	"golang.org/x/sys/unix"
)

// spot is the place that the path of a call leads to. It consists of a path without symbolic links
// and the file's present state.
type spot struct {
	path   string // absolute, in our own mount namespace
	st     event.Stat
	exists bool
}

// resolver finds the places that the paths of calls lead to. The Recorder's mu guards it.
type resolver struct {
	places   *Places
	tracks   map[string]*track // the open histories, by root; shared with the Recorder
	root     root              // of this process
	overlays []mounts.Mount    // the cachebro mounts found so far
	call     callFacts

	elsewhere map[seenFile]otherPath
}

// seenFile is a file as processes with other mounts see it. Another file may later be mounted at the
// same path.
type seenFile struct {
	path  string
	inode event.Inode
}

// callFacts holds what the resolution of a call's first path found out and that of the second one
// can use. Most renames stay in one directory.
type callFacts struct {
	hasRoot     bool
	root, at    string // the results of rootOf
	named, real string // a directory as the call names it, and its real path
}

// view is how a call sees paths.
type view struct {
	pid     uint32
	root    string // path of the directory at which absolute paths begin, or "" if it is our root
	ownProc bool   // the path begins with our /proc, although root is not ""
}

// open opens a path with O_PATH. Links and ".." do not lead out of the root.
func (v view) open(path string, flags int) (int, error) {
	flags |= unix.O_PATH | unix.O_CLOEXEC
	if v.root == "" || v.ownProc {
		return unix.Open(path, flags, 0)
	}
	root, err := unix.Open(v.root, unix.O_PATH|unix.O_CLOEXEC|unix.O_DIRECTORY, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(root)
	fd, err := unix.Openat2(root, path, &unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_IN_ROOT})
	if err == unix.EXDEV { // a link in their /proc to an open file or directory
		return unix.Open(v.root+path, flags, 0)
	}
	return fd, err
}

// ourPath returns the path by which this process reaches a file that the call reaches by the path real,
// or false if there is none, such as for a file in a container.
func (r *resolver) ourPath(v view, real string, st event.Stat) (string, bool) {
	if v.root == "" {
		return real, true
	}
	leadsTo := func(path string) bool {
		here, ok := lstat(path)
		return ok && sameInode(here, st)
	}
	if leadsTo(real) {
		return real, true
	}
	seen := seenFile{real, event.InodeOf(st)}
	was, known := r.elsewhere[seen]
	if known && (leadsTo(was.path) || was.path == "" && time.Since(was.foundAt) < rootedFor) {
		return was.path, was.path != ""
	}
	if len(r.elsewhere) > 10_000 {
		clear(r.elsewhere)
	}
	ways := mounts.SeenBy(int(v.pid), real) // their mount table may have the directory in another place
	now := otherPath{foundAt: time.Now()}
	if i := slices.IndexFunc(ways, leadsTo); i >= 0 {
		now.path = ways[i]
	}
	r.elsewhere[seen] = now
	return now.path, now.path != ""
}

// otherPath caches our path of a directory that other processes see in another place, or "".
type otherPath struct {
	path    string
	foundAt time.Time
}

// begin must be called at the beginning of each system call.
func (r *resolver) begin() { r.call = callFacts{} }

// maxLinks bounds the symbolic links followed at the end of a path.
const maxLinks = 40

// resolve follows a path like the kernel. It returns false if the path leads nowhere or changes
// there are not recorded.
func (r *resolver) resolve(n *notifier.Notice, path string, follow bool) (spot, bool) {
	root, at := r.rootOf(n.PID)
	expanded := expandSelf(n.PID, path)
	v := view{n.PID, root, expanded != path}
	path = expanded
	if at != "" && within(path, at) { // this path of an open directory begins at our root
		path = "/" + strings.TrimPrefix(path[len(at):], "/")
	}
	for range maxLinks {
		trimmed := strings.TrimRight(path, "/")
		follow = follow || trimmed != path
		dir, base := filepath.Split(trimmed)
		if base == "" || base == "." || base == ".." {
			return r.directory(v, path)
		}
		if follow && isDescriptorDir(dir) { // a link in such a directory leads to an open file, not to a path
			return r.directory(v, path)
		}
		s, ok := r.resolveIn(v, dir, base)
		if !ok {
			return s, false
		}
		if !s.exists || !follow || kindOf(s.st) != unix.S_IFLNK {
			return s, !r.places.Skipped(s.path)
		}
		to, err := os.Readlink(s.path)
		if err != nil {
			return s, false
		}
		if strings.HasPrefix(to, "/") {
			v.ownProc = false
		} else {
			to = dir + to
		}
		path = to
	}
	return spot{}, false
}

func isDescriptorDir(dir string) bool {
	one, _ := filepath.Match("/proc/*/fd/", dir)
	other, _ := filepath.Match("/proc/*/task/*/fd/", dir)
	return one || other
}

// expandSelf replaces names like /proc/self, which refer to the calling process, by names that
// contain the process's id.
func expandSelf(pid uint32, path string) string {
	if !strings.HasPrefix(path, "/proc/") && !strings.HasPrefix(path, "/dev/") {
		return path
	}
	for _, own := range []struct{ name, is string }{{"/proc/self/", "/proc/%d/"}, {"/proc/thread-self/", "/proc/%d/"}, {"/dev/fd/", "/proc/%d/fd/"}} {
		if rest, ok := strings.CutPrefix(path, own.name); ok {
			return fmt.Sprintf(own.is, pid) + rest
		}
	}
	switch path {
	case "/dev/stdin":
		return fmt.Sprintf("/proc/%d/fd/0", pid)
	case "/dev/stdout":
		return fmt.Sprintf("/proc/%d/fd/1", pid)
	case "/dev/stderr":
		return fmt.Sprintf("/proc/%d/fd/2", pid)
	}
	return path
}

// rootOf returns the root directory of a process, as a path in /proc, or "" if the process has our root
// directory and mounts. at is the root's path in our own mounts if the process has changed only its root.
func (r *resolver) rootOf(pid uint32) (root, at string) {
	if r.call.hasRoot {
		return r.call.root, r.call.at
	}
	root = "/proc/" + strconv.Itoa(int(pid)) + "/root"
	is, err := rootAt(root)
	if err == nil && is == r.root {
		root = ""
	} else {
		at, _ = os.Readlink(root)
	}
	if at == "/" {
		at = ""
	}
	r.call.hasRoot, r.call.root = true, root
	r.call.at = at
	return root, at
}

// root identifies a directory in a mount. Mount ids differ between mount namespaces.
type root struct{ mount, ino uint64 }

func rootAt(path string) (root, error) {
	var sx unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_INO|unix.STATX_MNT_ID, &sx)
	if err == nil && sx.Mask&unix.STATX_MNT_ID == 0 {
		err = unix.ENOTSUP
	}
	return root{sx.Mnt_id, sx.Ino}, err
}

// directory resolves a path that ends in "." or "..", or leads to a descriptor.
func (r *resolver) directory(v view, path string) (spot, bool) {
	fd, err := v.open(path, 0)
	if err != nil {
		return spot{}, false
	}
	defer unix.Close(fd)
	var sx sys.Stat
	if err := sys.StatFD(fd, &sx); err != nil {
		return spot{}, false
	}
	real, ok := pathOf(fd)
	if !ok && sx.Nlink > 0 { // the file was opened under a name that has since been removed
		real = r.nameOf(event.InodeOf(sx.Stat))
		ok = real != ""
	}
	if ok {
		real, ok = r.ourPath(v, real, sx.Stat)
	}
	if !ok || r.notRecorded(fd, real) {
		return spot{}, false
	}
	here, ok := lstat(real)
	return spot{real, sx.Stat, true}, ok && sameInode(here, sx.Stat) && !r.places.Skipped(real)
}

// nameOf returns an absolute path that leads to a file, or "" if none is known.
func (r *resolver) nameOf(in event.Inode) string {
	for _, t := range r.tracks {
		f := t.files[in]
		if f == nil {
			continue
		}
		if name := f.otherName(""); name != "" {
			return t.abs(name)
		}
	}
	return ""
}

func (r *resolver) resolveIn(v view, dir, base string) (spot, bool) {
	if v.root == "" && r.call.named == dir {
		s, _, ok := spotAt(unix.AT_FDCWD, r.call.real, base)
		return s, ok
	}
	fd, theirs, ok := openDir(v, dir)
	if !ok {
		return spot{}, false
	}
	defer unix.Close(fd)
	real := theirs
	if v.root != "" {
		var sx sys.Stat
		err := sys.StatFD(fd, &sx)
		real, ok = r.ourPath(v, real, sx.Stat)
		if err != nil || !ok {
			return spot{}, false
		}
	}
	if r.notRecorded(fd, real) {
		return spot{}, false
	}
	s, mounted, ok := spotAt(fd, real, base)
	switch {
	case v.root == "":
		r.call.named, r.call.real = dir, real
	case ok && mounted: // our directory has another file with this name, or none
		s.path, ok = r.ourPath(v, filepath.Join(theirs, base), s.st)
	}
	return s, ok
}

// openDir opens a directory and returns its path without symbolic links.
func openDir(v view, path string) (fd int, real string, ok bool) {
	if v.root == "" {
		how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_DIRECTORY, Resolve: unix.RESOLVE_NO_SYMLINKS}
		fd, err := unix.Openat2(unix.AT_FDCWD, path, &how)
		if err == nil {
			return fd, filepath.Clean(path), true
		}
	}
	fd, err := v.open(path, unix.O_DIRECTORY)
	if err != nil {
		return -1, "", false
	}
	real, ok = pathOf(fd)
	if !ok {
		unix.Close(fd)
	}
	return fd, real, ok
}

// spotAt returns the spot of a name in the directory at the path real, and whether something is mounted
// on the name. fd is that directory, or AT_FDCWD.
func spotAt(fd int, real, base string) (s spot, mounted, ok bool) {
	s.path = filepath.Join(real, base)
	name := base
	if fd == unix.AT_FDCWD {
		name = s.path
	}
	var sx sys.Stat
	err := sys.StatAt(fd, name, &sx)
	if err != nil && err != unix.ENOENT {
		return spot{}, false, false
	}
	s.st, s.exists = sx.Stat, err == nil
	return s, s.exists && sx.Flags&unix.STATX_ATTR_MOUNT_ROOT != 0, true
}

func pathOf(fd int) (string, bool) {
	var buf [unix.PathMax + 16]byte
	n, err := unix.Readlink("/proc/self/fd/"+strconv.Itoa(fd), buf[:])
	if err != nil || n == 0 || buf[0] != '/' {
		return "", false
	}
	name := string(buf[:n])
	if !strings.HasSuffix(name, unlinked) {
		return name, true
	}
	var is sys.Stat // the name itself may end like that
	here, ok := lstat(name)
	return name, ok && sys.StatFD(fd, &is) == nil && sameInode(here, is.Stat)
}

// unlinked is the text that the kernel appends to the path of an open file whose name was removed.
const unlinked = " (deleted)"

const fuseMagic = 0x65735546

// notRecorded reports whether a path is in one of the kernel's own file systems, or on a cachebro
// mount, where the overlay records the changes.
func (r *resolver) notRecorded(fd int, path string) bool {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil || procfs.KernelFSType(int64(fs.Type)) {
		return true
	}
	if int64(fs.Type) != fuseMagic {
		return false
	}
	_, ours := mounts.Above(r.overlays, path)
	if !ours { // the mount may be newer than the list
		r.overlays, _ = mounts.Overlays()
		_, ours = mounts.Above(r.overlays, path)
	}
	return ours
}

// bothAllowed reports whether this user may change the names in both directories.
func bothAllowed(a, b string) bool { return allowed(a) && (a == b || allowed(b)) }

// allowed reports whether this user may write to a file or change the names in a directory.
func allowed(path string) bool {
	return unix.Faccessat(unix.AT_FDCWD, path, unix.W_OK, unix.AT_EACCESS) == nil
}
