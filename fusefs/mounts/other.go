//go:build !linux

package mounts

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"cachebro/store/leaf/procfs"

	"golang.org/x/sys/unix"
)

// Mounts reads the mount table.
func Mounts() ([]Mount, error) {
	n, err := unix.Getfsstat(nil, unix.MNT_NOWAIT)
	if err != nil {
		return nil, fmt.Errorf("read the mount table: %w", err)
	}
	stats := make([]unix.Statfs_t, n+8)
	n, err = unix.Getfsstat(stats, unix.MNT_NOWAIT)
	if err != nil {
		return nil, fmt.Errorf("read the mount table: %w", err)
	}
	var all []Mount
	for _, s := range stats[:min(n, len(stats))] {
		m := Mount{Point: unix.ByteSliceToString(s.Mntonname[:]), Source: unix.ByteSliceToString(s.Mntfromname[:]), Type: unix.ByteSliceToString(s.Fstypename[:]), UID: int(s.Owner)}
		// macFUSE names the file system by its option fstypename and the
		// source by fsname=cachebro:PATH.
		if path, ok := strings.CutPrefix(m.Source, "cachebro:"); ok {
			m.Type, m.Source = FSType, path
		}
		all = append(all, m)
	}
	return all, nil
}

// Table is the mount table; this system does not report its changes.
type Table struct{}

// WatchTable fails.
func WatchTable() (*Table, error) { return nil, errors.ErrUnsupported }

// Wait fails.
func (*Table) Wait() error { return errors.ErrUnsupported }

// Close does nothing.
func (*Table) Close() {}

// Holder stands for another mount namespace. There are none on this system.
type Holder struct {
	Namespace string
	PID       int
	Command   string
	Users     []Proc
}

// Holders finds nothing here.
func Holders(string) []Holder { return nil }

// Databases finds nothing here.
func Databases(string, func(pid int) bool) []Proc { return nil }

// Beside finds nothing here.
func Beside(string) []Proc { return nil }

// WayBeside finds nothing.
func WayBeside([]Mount, string) (string, bool) { return "", false }

// Shared returns the kind of file system that a directory is on if other machines can
// change it; "" otherwise.
func Shared(dir *os.File) string {
	var st unix.Statfs_t
	if unix.Fstatfs(int(dir.Fd()), &st) != nil {
		return ""
	}
	return map[string]string{"nfs": "NFS", "smbfs": "SMB", "afpfs": "AFP", "webdav": "WebDAV"}[unix.ByteSliceToString(st.Fstypename[:])]
}

// TellsOutside is false because Scan cannot tell which processes use the source directly. On this
// system only the path of a working directory is known, which is the same in the source and in
// the mount.
const TellsOutside = false

// Scan finds the processes that have their working directory in dir, if inside is set.
// Those that use the source directly cannot be found here.
func Scan(dir string, _ map[int]bool, inside bool, skip func(int) bool) []Proc {
	if !inside {
		return nil
	}
	found := eachProcess(func(pid int) (Proc, bool) {
		at := procfs.Dir(pid)
		if at == "" || !Within(at, dir) || skip != nil && skip(pid) {
			return Proc{}, false
		}
		st, err := procfs.ReadStat(pid)
		return Proc{PID: pid, Start: st.Start, Comm: st.Comm, How: "working directory", Path: at}, err == nil
	})
	sortProcs(found)
	return found
}

// dead reports whether no process serves a mount. In that case macFUSE's kernel extension answers
// itself, with zero blocks (osxfuse/fuse_vfsops.c, fuse_vfsop_getattr).
func dead(st *syscall.Statfs_t) bool { return st.Blocks == 0 }
