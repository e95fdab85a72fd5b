//go:build portable

package sys

import (
	"cachebro/store/leaf/procfs"

	"golang.org/x/sys/unix"
)

// What the portable implementation asks of Linux itself.

// NoAtime, as a flag of Open, leaves the time of the last access as it is.
const NoAtime = unix.O_NOATIME

// search opens a directory for nothing but the names in it.
const search = unix.O_RDONLY

// foreign reports whether one of the kernel's own file systems is mounted on a name.
func foreign(dir int, name string) bool {
	var here, there Stat
	return StatFD(dir, &here) == nil && StatAt(dir, name, &there) == nil && here.Dev != there.Dev && procfs.MountedKernelFS(dir, name)
}

func (t Time) spec() unix.Timespec { return unix.Timespec{Sec: t.Sec, Nsec: int64(t.Nsec)} }

func setTimesOpen(fd int, accessed, modified Time) error {
	return unix.UtimesNanoAt(fd, "", []unix.Timespec{accessed.spec(), modified.spec()}, unix.AT_EMPTY_PATH)
}

// openXattrs opens what a name stands for, to reach its extended attributes. Linux
// gives none of its own to symbolic links and FIFOs.
func openXattrs(dir int, name string) (int, error) { return Open(dir, name, Place, 0) }

// Mknod makes a FIFO, a socket, a device or an empty file.
func Mknod(dir int, name string, mode uint32, dev int) error {
	return unix.Mknodat(dir, name, mode, dev)
}
