// Package kernelfs tells the kernel's own file systems (procfs, sysfs and their
// like) from those that store files. Opening a file of procfs or sysfs can have an
// effect. So code that opens a project's files on behalf of others, with rights of its
// own, must not enter such a file system where one is mounted inside the project.
package kernelfs

import "golang.org/x/sys/unix"

// Of linux/magic.h, and not in the library.
const (
	configfsMagic = 0x62656570
	fusectlMagic  = 0x65735543
)

// On reports whether such a file system is mounted on a name in a directory, or
// what is mounted there cannot be told. A symbolic link is not followed.
func On(dir int, name string) bool {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return true
	}
	defer unix.Close(fd)
	return Is(fd)
}

// Is reports whether a descriptor is of such a file system, or that cannot be told.
func Is(fd int) bool {
	var s unix.Statfs_t
	return unix.Fstatfs(fd, &s) != nil || IsType(int64(s.Type))
}

// IsType reports whether statfs(2) says of such a file system that it is of this type.
func IsType(magic int64) bool {
	switch magic {
	case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC, unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC,
		unix.SECURITYFS_MAGIC, unix.SELINUX_MAGIC, unix.BPF_FS_MAGIC, unix.EFIVARFS_MAGIC, unix.PSTOREFS_MAGIC, unix.BINFMTFS_MAGIC,
		unix.DEVPTS_SUPER_MAGIC, unix.NSFS_MAGIC, unix.RDTGROUP_SUPER_MAGIC, configfsMagic, fusectlMagic:
		return true
	}
	return false
}
