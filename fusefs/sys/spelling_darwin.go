package sys

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Folds reports whether a directory finds an entry under several spellings of its name. It returns
// true, because APFS treats all normal forms of a name as equal, even on volumes that distinguish case.
func Folds(int) bool { return true }

// Spelling returns the spelling, in the directory, of the entry found as name. For a file with
// several names, the system may report another of its names. Then Spelling returns name.
func Spelling(dir int, name string, ino uint64) (string, error) {
	path, err := unix.BytePtrFromString(name)
	if err != nil {
		return "", err
	}
	list := unix.Attrlist{Bitmapcount: unix.ATTR_BIT_MAP_COUNT, Commonattr: attrName}
	buf := make([]byte, nameReply)
	_, _, errno := syscall.Syscall6(unix.SYS_GETATTRLISTAT, uintptr(dir), uintptr(unsafe.Pointer(path)),
		uintptr(unsafe.Pointer(&list)), uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)), unix.FSOPT_NOFOLLOW)
	if errno != 0 {
		return "", errno
	}
	got, ok := parseName(buf)
	if !ok || !SameName(got, name) {
		return name, nil
	}
	return got, nil
}
