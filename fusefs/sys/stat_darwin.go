package sys

import (
	"cachebro/store/leaf/event"
	"cachebro/store/leaf/loop"

	"golang.org/x/sys/unix"
)

// StatAt fills s with the attributes of the file called name in the directory dir. It does not
// follow a symbolic link.
func StatAt(dir int, name string, s *Stat) error {
	var st unix.Stat_t
	err := loop.Retry(func() error { return unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	if err == nil {
		s.fill(&st)
	}
	return err
}

// StatFD fills s with the attributes of the file that fd is open on.
func StatFD(fd int, s *Stat) error {
	var st unix.Stat_t
	err := loop.Retry(func() error { return unix.Fstat(fd, &st) })
	if err == nil {
		s.fill(&st)
	}
	return err
}

// fill converts st. It leaves Birth at 0, because any process on Darwin can change a file's time of
// creation, for example by setting an older modification time. On other systems, Birth
// distinguishes a file from a later file with the same inode number.
func (s *Stat) fill(st *unix.Stat_t) {
	*s = Stat{
		Stat: event.Stat{
			Dev: uint64(uint32(st.Dev)), Ino: st.Ino, Mode: uint32(st.Mode), Nlink: uint32(st.Nlink), UID: st.Uid, GID: st.Gid, Size: st.Size,
		},
		Accessed: moment(st.Atim), Modified: moment(st.Mtim), Changed: moment(st.Ctim), Born: moment(st.Btim),
		Blocks: uint64(st.Blocks), Blksize: uint32(st.Blksize), Rdev: uint64(uint32(st.Rdev)),
		Flags: uint64(st.Flags),
	}
	s.Mtime, s.Ctime = s.Modified.nanos(), s.Changed.nanos()
}

func moment(t unix.Timespec) Time { return Time{Sec: t.Sec, Nsec: uint32(t.Nsec)} }
