package carry

import (
	"bytes"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// attributes gives f the extended attributes, access control lists among them, of
// the file that it is to replace: the history does not have them, so nothing else
// could bring them back. It returns how many there are.
func (w *worker) attributes(f *os.File) (n int, err error) {
	old, err := w.root.OpenFile(w.name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return 0, nil // a link, or not to be read
	}
	defer old.Close()
	names, err := sized(func(b []byte) (int, error) { return unix.Flistxattr(int(old.Fd()), b) })
	if err != nil {
		return 0, nil // there are none here
	}
	for raw := range bytes.SplitSeq(names, []byte{0}) {
		name := string(raw)
		if name == "" || strings.HasPrefix(name, "security.") {
			continue // capabilities were given to another content
		}
		value, err := sized(func(b []byte) (int, error) { return unix.Fgetxattr(int(old.Fd()), name, b) })
		if err == nil {
			err = unix.Fsetxattr(int(f.Fd()), name, value, 0)
		}
		// Of the others some belong to the system, which has given f its own.
		if err != nil && (strings.HasPrefix(name, "user.") || strings.HasPrefix(name, "system.posix_acl_")) {
			return n, fmt.Errorf("keep its attribute %s: %w", name, err)
		}
		n++
	}
	return n, nil
}

// sized asks for the size first, and again if it has grown meanwhile.
func sized(get func([]byte) (int, error)) ([]byte, error) {
	for {
		n, err := get(nil)
		if err != nil || n == 0 {
			return nil, err
		}
		b := make([]byte, n)
		if n, err = get(b); err != unix.ERANGE {
			return b[:max(n, 0)], err
		}
	}
}
