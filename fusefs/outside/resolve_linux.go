//go:build linux && (amd64 || arm64)

package outside

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

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
}

// callFacts holds what the resolution of a call's first path found out and that of the second one
// can use. Most renames stay in one directory.
type callFacts struct {
	hasPrefix   bool
	prefix      string // the result of rootPrefix
	named, real string // a directory as the call names it, and its real path
}

// begin must be called at the beginning of each system call.
func (r *resolver) begin() { r.call = callFacts{} }

// maxLinks bounds the symbolic links followed at the end of a path.
const maxLinks = 40

// resolve follows a path like the kernel. It returns false if the path leads nowhere or changes
// there are not recorded.
func (r *resolver) resolve(n *notifier.Notice, path string, follow bool) (spot, bool) {
	path = expandSelf(n.PID, path)
	prefix := r.rootPrefix(n.PID)
	for range maxLinks {
		trimmed := strings.TrimRight(path, "/")
		follow = follow || trimmed != path
		dir, base := filepath.Split(trimmed)
		if base == "" || base == "." || base == ".." {
			return r.directory(prefix + path)
		}
		if follow && isDescriptorDir(dir) { // a link in such a directory leads to an open file, not to a path
			return r.directory(prefix + path)
		}
		s, ok := r.resolveIn(prefix, dir, base)
		if !ok {
			return s, false
		}
		if !s.exists || !follow || kindOf(s.st) != unix.S_IFLNK {
			return s, !r.places.Skipped(s.path)
		}
		to, err := os.Readlink(prefix + dir + base)
		if err != nil {
			return s, false
		}
		if !strings.HasPrefix(to, "/") {
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

// rootPrefix returns the prefix with which a path of another process leads this process to the same
// file. It is "" if the process has our root directory and mounts.
func (r *resolver) rootPrefix(pid uint32) string {
	if r.call.hasPrefix {
		return r.call.prefix
	}
	at := "/proc/" + strconv.Itoa(int(pid)) + "/root"
	if root, err := rootAt(at); err == nil && root == r.root {
		at = ""
	}
	r.call.hasPrefix, r.call.prefix = true, at
	return at
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
func (r *resolver) directory(path string) (spot, bool) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
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

func (r *resolver) resolveIn(prefix, dir, base string) (spot, bool) {
	if r.call.named == prefix+dir {
		return spotAt(unix.AT_FDCWD, r.call.real, base)
	}
	fd, real, ok := openDir(prefix + dir)
	if !ok {
		return spot{}, false
	}
	defer unix.Close(fd)
	if r.notRecorded(fd, real) {
		return spot{}, false
	}
	if prefix != "" { // record the file only if the path leads to the same directory for us too
		var exists sys.Stat
		here, ok := lstat(real)
		if err := sys.StatFD(fd, &exists); err != nil || !ok || !sameInode(here, exists.Stat) {
			return spot{}, false
		}
	}
	r.call.named, r.call.real = prefix+dir, real
	return spotAt(fd, real, base)
}

// openDir opens a directory and returns its path without symbolic links.
func openDir(path string) (fd int, real string, ok bool) {
	const flags = unix.O_PATH | unix.O_CLOEXEC | unix.O_DIRECTORY
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: flags, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err == nil {
		return fd, filepath.Clean(path), true
	}
	fd, err = unix.Open(path, flags, 0)
	if err != nil {
		return -1, "", false
	}
	real, ok = pathOf(fd)
	if !ok {
		unix.Close(fd)
	}
	return fd, real, ok
}

// spotAt returns the spot of a name in the directory at the path real. fd is that directory, or
// AT_FDCWD.
func spotAt(fd int, real, base string) (spot, bool) {
	s := spot{path: filepath.Join(real, base)}
	name := base
	if fd == unix.AT_FDCWD {
		name = s.path
	}
	var sx sys.Stat
	err := sys.StatAt(fd, name, &sx)
	if err != nil && err != unix.ENOENT {
		return spot{}, false
	}
	s.st, s.exists = sx.Stat, err == nil
	return s, true
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
