//go:build !portable

package sys

import (
	"strconv"

	"cachebro/store/leaf/procfs"

	"golang.org/x/sys/unix"
)

// Place, as a flag of Open and as the only flag of a handle, means that the descriptor
// only points at the file: it can be asked for attributes, linked and opened again, but
// not read. That needs no permission on the file itself.
const Place = unix.O_PATH

// Points reports whether any file can be opened as a Place. If not, files that are not
// open already are reached by name.
const Points = true

// NoAtime, as a flag of Open, keeps the time of the last access.
const NoAtime = unix.O_NOATIME

const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

// Open opens one name in a directory and follows no link. EAGAIN means that a rename was going
// on; it says nothing about this name. ESTALE means that the name is a symbolic link.
//
// A mount on the name is entered, except for the kernel's own file systems: EACCES.
// Opening a file of /proc or /sys can have an effect, and that would happen with our
// rights and in our name.
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
			// The kernel expects a file, but there is a symlink: it was changed on the source.
			return -1, unix.ESTALE
		case err == unix.ENOSYS:
			return unix.Openat(dir, name, flags|unix.O_CLOEXEC|unix.O_NOFOLLOW, mode)
		default:
			return fd, err
		}
	}
}

// OpenAgain opens the file that a descriptor is open on, whatever its names are by now.
// ESTALE: that is not possible with these flags.
func OpenAgain(fd, flags int) (int, error) {
	return unix.Open(path(fd), flags|unix.O_CLOEXEC, 0)
}

// Path returns a path that leads to this file only, in this process. ENOTSUP: there is none.
func Path(f Ref) (string, error) { return path(f.FD), nil }

func path(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }
