//go:build !portable

package sys

import (
	"strconv"

	"cachebro/store/leaf/procfs"

	"golang.org/x/sys/unix"
)

// Place is a flag of Open for a descriptor that only points at the file. The descriptor can be used
// to read the file's attributes, to link the file and to open it again, but not to read its
// content. Open with Place needs no permission on the file itself.
const Place = unix.O_PATH

// Points is true because any file can be opened with Place. On systems where Points is false
// (portable.go), some files can be reached only by name.
const Points = true

// NoAtime is a flag of Open. Reading from such a descriptor does not change the access time.
const NoAtime = unix.O_NOATIME

const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

// Open opens one name in a directory and follows no symbolic link. It returns ESTALE if the name is
// a symbolic link, and EAGAIN if renames anywhere in the system interrupted every attempt.
//
// If another file system is mounted on the name, Open enters it. If that is one of the kernel's own
// file systems, Open returns EACCES. Opening a file of /proc or /sys can have effects, and these
// would happen with our rights instead of the caller's.
func Open(dir int, name string, flags int, mode uint32) (int, error) {
	how := unix.OpenHow{
		Flags:   uint64(flags | unix.O_CLOEXEC | unix.O_NOFOLLOW),
		Resolve: beneath | unix.RESOLVE_NO_XDEV,
	}
	if flags&(unix.O_CREAT|unix.O_TMPFILE&^unix.O_DIRECTORY) != 0 {
		how.Mode = uint64(mode & 0o7777)
	}
	for try := 0; ; try++ {
		fd, err := unix.Openat2(dir, name, &how)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN && try < 100:
		case err == unix.EXDEV && how.Resolve&unix.RESOLVE_NO_XDEV != 0:
			if procfs.MountedKernelFS(dir, name) {
				return -1, unix.EACCES
			}
			how.Resolve &^= unix.RESOLVE_NO_XDEV
		case err == unix.ELOOP && flags&unix.O_PATH == 0:
			// The caller does not expect a symbolic link, so a link has just replaced the file.
			return -1, unix.ESTALE
		case err == unix.ENOSYS:
			return unix.Openat(dir, name, flags|unix.O_CLOEXEC|unix.O_NOFOLLOW, mode)
		default:
			return fd, err
		}
	}
}

// OpenAgain opens the file of the open descriptor fd again, even if the file was renamed or
// removed. It returns ESTALE if that is not possible with these flags.
func OpenAgain(fd, flags int) (int, error) {
	return unix.Open(path(fd), flags|unix.O_CLOEXEC, 0)
}

// Path returns a path that leads to this file within this process, even if the file was renamed or
// removed. It returns ENOTSUP if the system has no such paths.
func Path(f Ref) (string, error) { return path(f.FD), nil }

func path(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }
