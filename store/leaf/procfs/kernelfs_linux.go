package procfs

import "golang.org/x/sys/unix"

// From linux/magic.h; the library lacks them.
const (
	configfsMagic = 0x62656570
	fusectlMagic  = 0x65735543
)

// MountedKernelFS reports whether a name in a directory is on one of the kernel's own file systems.
// It also returns true if the file system cannot be determined. It does not follow a symbolic link.
func MountedKernelFS(dir int, name string) bool {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return true
	}
	defer unix.Close(fd)
	return OnKernelFS(fd)
}

// OnKernelFS reports whether a descriptor is on one of the kernel's own file systems, such as
// procfs or sysfs. It also returns true if the file system cannot be determined. Opening a file on
// such a file system can have side effects. If one is mounted in a project, code that opens files
// there on behalf of other users must not enter it.
func OnKernelFS(fd int) bool {
	var s unix.Statfs_t
	return unix.Fstatfs(fd, &s) != nil || KernelFSType(int64(s.Type))
}

// KernelFSType reports whether a type from statfs(2) is one of the kernel's own file systems.
func KernelFSType(magic int64) bool {
	switch magic {
	case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC, unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC,
		unix.SECURITYFS_MAGIC, unix.SELINUX_MAGIC, unix.BPF_FS_MAGIC, unix.EFIVARFS_MAGIC, unix.PSTOREFS_MAGIC, unix.BINFMTFS_MAGIC,
		unix.DEVPTS_SUPER_MAGIC, unix.NSFS_MAGIC, unix.RDTGROUP_SUPER_MAGIC, configfsMagic, fusectlMagic:
		return true
	}
	return false
}
