package mounting

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// magics names the file systems whose behaviour matters to cachebro.
var magics = map[int64]string{
	unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs", unix.TMPFS_MAGIC: "tmpfs",
	unix.OVERLAYFS_SUPER_MAGIC: "overlay", unix.NFS_SUPER_MAGIC: "nfs", unix.V9FS_MAGIC: "9p", unix.FUSE_SUPER_MAGIC: "fuse",
	0xff534d42: "cifs", 0xfe534d42: "smb2", 0x2fc12fc1: "zfs", unix.F2FS_SUPER_MAGIC: "f2fs",
}

// FileSystem returns the kind of the file system that contains dir.
func FileSystem(dir string) string {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return "unknown"
	}
	if name, ok := magics[int64(uint32(st.Type))]; ok {
		return name
	}
	return fmt.Sprintf("type %#x", uint32(st.Type))
}
