//go:build portable

package sys

import (
	"cachebro/store/leaf/procfs"

	"golang.org/x/sys/unix"
)

// NoAtime is a flag of Open. Reading from such a descriptor does not change the access time.
const NoAtime = unix.O_NOATIME

// search are the flags that open a directory only to look up names in it.
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

// openXattrs opens a name for its extended attributes. On Linux, symbolic links and FIFOs have no
// such attributes.
func openXattrs(dir int, name string) (int, error) { return Open(dir, name, Place, 0) }

// Mknod makes a FIFO, a socket, a device or an empty file.
func Mknod(dir int, name string, mode uint32, dev int) error {
	return unix.Mknodat(dir, name, mode, dev)
}
