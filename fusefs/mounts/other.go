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
		// macFUSE takes the type from its option fstypename and the source from
		// fsname=cachebro:PATH.
		if path, ok := strings.CutPrefix(m.Source, "cachebro:"); ok {
			m.Type, m.Source = FSType, path
		}
		all = append(all, m)
	}
	return all, nil
}

// Table is the mount table. This system does not report its changes.
type Table struct{}

func WatchTable() (*Table, error) { return nil, errors.ErrUnsupported }

func (*Table) Wait() error { return errors.ErrUnsupported }

func (*Table) Close() {}

// Holder is another mount namespace. This system has none.
type Holder struct {
	Namespace string
	PID       int
	Command   string
	Users     []Proc
}

func Holders(string) []Holder { return nil }

func DatabaseUsers(string, func(pid int) bool) []Proc { return nil }

func Beside(string) []Proc { return nil }

func BesideSummary([]Mount, string) (string, bool) { return "", false }

// Shared returns the type of the file system of dir if other machines can change files on it,
// otherwise "".
func Shared(dir *os.File) string {
	var st unix.Statfs_t
	if unix.Fstatfs(int(dir.Fd()), &st) != nil {
		return ""
	}
	return map[string]string{"nfs": "NFS", "smbfs": "SMB", "afpfs": "AFP", "webdav": "WebDAV"}[unix.ByteSliceToString(st.Fstypename[:])]
}

// FindsOutside is false because Scan cannot find processes that use the source directly. This
// system reports only the path of a working directory, which is the same in the source and on the
// mount.
const FindsOutside = false

// Scan finds the processes whose working directory is in dir, if inside is true. Otherwise it
// returns nil, because it cannot find processes that use the source directly.
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

// dead reports whether no process serves a mount. For such a mount, macFUSE's kernel extension
// returns zero blocks (osxfuse/fuse_vfsops.c, fuse_vfsop_getattr).
func dead(st *syscall.Statfs_t) bool { return st.Blocks == 0 }
