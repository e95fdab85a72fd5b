package sys

import "golang.org/x/sys/unix"

// casefold is FS_CASEFOLD_FL, set by chattr +F.
const casefold = 0x40000000

// Folds reports whether a directory finds an entry under several spellings of its name. On ext4, f2fs,
// bcachefs and tmpfs, this is an attribute of the directory, which can be changed only while the
// directory is empty. FUSE file systems may support it too.
func Folds(dir int) bool {
	var fs unix.Statfs_t
	if unix.Fstatfs(dir, &fs) != nil {
		return false
	}
	switch uint32(fs.Type) {
	case 0x4d44, 0x2011bab0, // FAT, exFAT
		0x4244, 0x482b, // HFS, HFS+
		0x5346544e, 0x7366746e, // NTFS
		0xff534d42, 0xfe534d42: // SMB
		return true
	case 0xef53, 0xf2f52010, 0xca451a4e, unix.TMPFS_MAGIC, unix.FUSE_SUPER_MAGIC:
	default:
		return false
	}
	fd, err := Open(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	flags, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS)
	return err == nil && flags&casefold != 0
}

// Spelling returns the spelling, in the directory, of the entry that is found as name and has inode
// number ino. It reads the directory, because a link in /proc/self/fd has the spelling of the first
// lookup.
func Spelling(dir int, name string, ino uint64) (string, error) {
	fd, err := Open(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	var found []string
	buf := make([]byte, 32<<10)
	for {
		n, err := Dirents(fd, buf)
		if err != nil {
			return "", err
		}
		if n == 0 {
			break
		}
		for b := buf[:n]; len(b) > 0; {
			e, size := ParseDirent(b)
			b = b[size:]
			if e.Name == name {
				return name, nil
			}
			if e.Ino == ino && e.Name != "." && e.Name != ".." {
				found = append(found, e.Name)
			}
		}
	}
	return spelling(name, found), nil
}
