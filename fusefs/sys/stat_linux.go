package sys

import (
	"maps"
	"sync"
	"sync/atomic"

	"cachebro/store/leaf/event"
	"cachebro/store/leaf/loop"

	"golang.org/x/sys/unix"
)

const statMask = unix.STATX_BASIC_STATS | unix.STATX_BTIME | unix.STATX_MNT_ID_UNIQUE

// StatAt fills s with the attributes of the file called name in the directory dir. It does not
// follow a symbolic link.
func StatAt(dir int, name string, s *Stat) error {
	return stat(dir, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, s)
}

// StatFD fills s with the attributes of the file that fd is open on.
func StatFD(fd int, s *Stat) error { return stat(fd, "", unix.AT_EMPTY_PATH, s) }

func stat(fd int, name string, flags int, s *Stat) error {
	var sx unix.Statx_t
	if err := loop.Retry(func() error { return unix.Statx(fd, name, flags, statMask, &sx) }); err != nil {
		return err
	}
	*s = Stat{
		Stat: event.Stat{
			Dev: unix.Mkdev(sx.Dev_major, sx.Dev_minor), Ino: sx.Ino, Mode: uint32(sx.Mode), Nlink: sx.Nlink, UID: sx.Uid, GID: sx.Gid, Size: int64(sx.Size),
		},
		Accessed: moment(sx.Atime), Modified: moment(sx.Mtime), Changed: moment(sx.Ctime), Born: moment(sx.Btime),
		Blocks: sx.Blocks, Blksize: sx.Blksize, Rdev: unix.Mkdev(sx.Rdev_major, sx.Rdev_minor),
		Has: sx.Mask, Flags: sx.Attributes, KnownFlags: sx.Attributes_mask,
	}
	s.Mtime, s.Ctime = s.Modified.nanos(), s.Changed.nanos()
	if sx.Mask&unix.STATX_BTIME != 0 && !(sx.Dev_major == 0 && onOverlay(fd, name, mount{s.Dev, sx.Mnt_id})) {
		s.Birth = s.Born.nanos()
	}
	return nil
}

// mount identifies a mounted file system. Device numbers are used again after an unmount. The
// kernel never uses an id again from Linux 6.8 on.
type mount struct{ dev, id uint64 }

// overlays says which mounts without a block device, of those seen so far, are overlayfs.
var overlays struct {
	sync.Mutex
	known atomic.Pointer[map[mount]bool]
}

// onOverlay reports whether a file is on an overlayfs. There, a file gets another birth time before
// its first change, when the overlayfs copies the file to its upper layer. The root directory of a
// container is such a file system.
func onOverlay(dir int, name string, on mount) bool {
	if known := overlays.known.Load(); known != nil {
		if is, ok := (*known)[on]; ok {
			return is
		}
	}
	if name != "" {
		fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return false
		}
		defer unix.Close(fd)
		dir = fd
	}
	var fs unix.Statfs_t
	if unix.Fstatfs(dir, &fs) != nil {
		return false
	}
	overlays.Lock()
	defer overlays.Unlock()
	all := map[mount]bool{on: fs.Type == unix.OVERLAYFS_SUPER_MAGIC}
	if known := overlays.known.Load(); known != nil {
		maps.Copy(all, *known)
	}
	overlays.known.Store(&all)
	return all[on]
}

func moment(t unix.StatxTimestamp) Time { return Time{Sec: t.Sec, Nsec: t.Nsec} }
