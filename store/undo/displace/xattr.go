package displace

import (
	"bytes"
	"os"

	"golang.org/x/sys/unix"
)

// copyXattrs copies the extended attributes of src, including ACLs, to dst. It returns false if one
// could not be copied. Capabilities are left out, because any write clears them.
func copyXattrs(dst, src *os.File) bool {
	n, err := unix.Flistxattr(int(src.Fd()), nil)
	if err != nil || n == 0 {
		return true // none, or not supported
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
