//go:build !linux

package mounts

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Mounts reads the mount table.
func Mounts() ([]Mount, error) {
	n, err := unix.Getfsstat(nil, unix.MNT_NOWAIT)
	if err != nil {
		return nil, fmt.Errorf("read the mount table: %w", err)
	}
	stats := make([]unix.Statfs_t, n+8)
	if n, err = unix.Getfsstat(stats, unix.MNT_NOWAIT); err != nil {
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

// Table is the mount table; nothing tells of its changes here.
type Table struct{}

// WatchTable fails.
func WatchTable() (*Table, error) { return nil, errors.ErrUnsupported }

// Wait fails.
func (*Table) Wait() error { return errors.ErrUnsupported }

// Close does nothing.
func (*Table) Close() {}

// Holder is another mount namespace; there are none here.
type Holder struct {
	Namespace string
	PID       int
	Command   string
}

// Holders finds nothing here.
func Holders(string) []Holder { return nil }

// Beside finds nothing here.
func Beside(string) []Proc { return nil }

// WayBeside finds nothing.
func WayBeside([]Mount, string) (string, bool) { return "", false }

// Shared knows nothing here.
func Shared(string) string { return "" }

// Scan knows no processes here: there is no /proc.
func Scan(string, map[int]bool, bool, func(int) bool) []Proc { return nil }

// Running reports whether a process with this pid exists.
func Running(pid int, _ uint64) bool {
	return pid > 0 && !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

// Ours tells our own processes; here only this one.
func Ours(pid int) bool { return pid == os.Getpid() }

// FindMountd finds nothing here.
func FindMountd(string) int { return 0 }
