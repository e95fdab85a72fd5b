package displace

import (
	"bytes"
	"os"

	"golang.org/x/sys/unix"
)

// copyXattrs gives dst the extended attributes of src (ACLs are among them). It
// reports false when one could not be copied. Capabilities are left out: any
// write clears them.
func copyXattrs(dst, src *os.File) bool {
	n, err := unix.Flistxattr(int(src.Fd()), nil)
	if err != nil || n == 0 {
		return true // none, or none possible
	}
	names := make([]byte, n)
	n, err = unix.Flistxattr(int(src.Fd()), names)
	if err != nil {
		return false
	}
	for attr := range bytes.SplitSeq(bytes.TrimSuffix(names[:n], []byte{0}), []byte{0}) {
		key := string(attr)
		if key == "security.capability" || key == "security.selinux" {
			continue
		}
		size, err := unix.Fgetxattr(int(src.Fd()), key, nil)
		if err != nil {
			return false
		}
		val := make([]byte, size)
		size, err = unix.Fgetxattr(int(src.Fd()), key, val)
		if err != nil {
			return false
		}
		if unix.Fsetxattr(int(dst.Fd()), key, val[:size], 0) != nil {
			return false
		}
	}
	return true
}
