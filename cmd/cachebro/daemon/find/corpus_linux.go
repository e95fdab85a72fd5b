package find

import (
	"errors"
	"io/fs"
	"os"
	"slices"

	"cachebro/search"
	"cachebro/store/leaf/limits"
	"cachebro/store/leaf/text"

	"golang.org/x/sys/unix"
)

// readBeneath reads a regular file into buf, or into a larger buffer if necessary. A query opens
// thousands of files, so this avoids an os.File for each, which would take eight system calls
// instead of four and leave garbage.
func readBeneath(dir *os.File, p string, buf []byte) ([]byte, error) {
	how := &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_NOATIME,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_SYMLINKS,
	}
	fd, err := unix.Openat2(int(dir.Fd()), p, how)
	for try := 0; err != nil && try < 10; try++ {
		switch {
		case errors.Is(err, unix.EPERM) && how.Flags&unix.O_NOATIME != 0: // only the owner may read without changing the access time
			how.Flags &^= unix.O_NOATIME
		case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.EXDEV): // the path is now a link, or leads through a file
			return nil, fs.ErrNotExist
		case !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR):
			return nil, err
		}
		fd, err = unix.Openat2(int(dir.Fd()), p, how)
	}
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var before, after unix.Stat_t
	if err := unix.Fstat(fd, &before); err != nil {
		return nil, err
	}
	for try := 0; ; try++ {
		if before.Mode&unix.S_IFMT != unix.S_IFREG {
			return nil, fs.ErrNotExist
		}
		size := int(before.Size)
		if before.Size > limits.Content {
			size = 8000 // enough to recognise text
		}
		buf = slices.Grow(buf[:0], size+1)
		n, err := preadFull(fd, buf[:size+1])
		if err != nil {
			return nil, err
		}
		if before.Size > limits.Content {
			if !text.Binary(buf[:n]) {
				return nil, search.ErrTooLarge
			}
			return nil, search.ErrBinary
		}
		// Read again if the file has changed in the meantime. A log file that is written without
		// end is accepted as it is after a few tries.
		if err := unix.Fstat(fd, &after); err != nil {
			return nil, err
		}
		same := n == size && before.Size == after.Size && before.Mtim == after.Mtim && before.Ctim == after.Ctim
		if same || try == 4 {
			return buf[:min(n, cap(buf))], nil
		}
		before = after
	}
}

func preadFull(fd int, b []byte) (n int, err error) {
	for n < len(b) {
		m, err := unix.Pread(fd, b[n:], int64(n))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || m == 0 {
			return n, err
		}
		n += m
	}
	return n, nil
}
