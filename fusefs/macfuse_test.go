//go:build portable || darwin

package fusefs

import (
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// The mount table must show which mounts are ours and the source of each, whatever characters the
// source's name contains. A request that takes long must not end the mount.
func TestMacOptions(t *testing.T) {
	dir := t.TempDir() + `/a,b\c`
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	source, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	plain := macOptions(&Options{Source: source})
	for _, want := range []string{
		"fsname=cachebro:" + strings.TrimSuffix(dir, `/a,b\c`) + `/a\,b\\c`, `volname=a\,b\\c`,
		"daemon_timeout=0", "noappledouble", "default_permissions", "local", "nobrowse", "iosize=1048576",
	} {
		if !slices.Contains(plain, want) {
			t.Errorf("%q is not among %q", want, plain)
		}
	}
	for _, not := range []string{"noapplexattr", "allow_other", "ro", "negative_vncache"} {
		if slices.Contains(plain, not) {
			t.Errorf("%q is among %q", not, plain)
		}
	}
	all := macOptions(&Options{Source: source, AllowOther: true, ReadOnly: true})
	if !slices.Contains(all, "allow_other") || !slices.Contains(all, "ro") {
		t.Errorf("options %q", all)
	}
}

// Error messages of macFUSE's and osxfuse's mount programs are replaced by advice on what to do.
func TestMacErrors(t *testing.T) {
	ended := errors.New("exit status 1")
	for _, c := range []struct {
		said string
		want error
	}{
		{"mount_macfuse: the file system is not available (1)\n", errExtension},
		{"mount_macfuse: file system extension requires user approval\n", errFSKit},
		{"The system extension required for mounting macFUSE volumes could not be loaded.\n\nPlease open System Settings", errExtension},
		{"mount_macfuse: failed to mount /Users/x/src@/dev/macfuse0: Resource busy\n", ErrBusy},
		{"mount_macfuse: mount point /x is itself on a macFUSE volume\n", ErrBusy},
		{"mount_macfuse: mount point is not a directory\n", ended},
		{"", ended},
	} {
		err := macError(c.said, ended)
		if !errors.Is(err, c.want) {
			t.Errorf("%q: %v, not %v", c.said, err, c.want)
		}
		if said := strings.Join(strings.Fields(c.said), " "); !strings.Contains(err.Error(), said) {
			t.Errorf("%v does not say %q", err, said)
		}
	}
	for _, e := range []error{errMacFUSE, errExtension, errFSKit} {
		if !strings.Contains(e.Error(), ": ") {
			t.Errorf("%v says nothing to do", e)
		}
	}
}

// A resource fork is read and written in pieces. Each request has the offset of its piece, but the
// source is asked for the whole attribute.
func TestMacPieces(t *testing.T) {
	value, missing := []byte("abcdef"), error(nil)
	get := func(dest []byte) (int, error) {
		if missing != nil {
			return 0, missing
		}
		if len(dest) == 0 {
			return len(value), nil
		}
		return copy(dest, value), nil
	}
	for _, c := range []struct {
		position uint32
		room     int
		want     string
		size     int
		err      error
	}{{2, 10, "cdef", 4, nil}, {2, 4, "cdef", 4, nil}, {2, 3, "", 0, unix.ERANGE}, {2, 0, "", 4, nil}, {6, 5, "", 0, nil}, {9, 5, "", 0, nil}} {
		dest := make([]byte, c.room)
		n, err := piece(c.position, dest, get)
		if n != c.size || err != c.err || string(dest[:min(n, c.room)]) != c.want {
			t.Errorf("from %d with room for %d: %d, %q, %v", c.position, c.room, n, dest, err)
		}
	}
	for _, c := range []struct {
		position   uint32
		data, want string
		missing    error
	}{{2, "XY", "abXYef", nil}, {5, "XYZ", "abcdeXYZ", nil}, {8, "X", "abcdef\x00\x00X", nil}, {1, "X", "\x00X", syscall.Errno(fuse.ENOATTR)}} {
		missing = c.missing
		got, err := patched(c.position, []byte(c.data), get)
		if string(got) != c.want || err != nil {
			t.Errorf("%q at %d: %q, %v", c.data, c.position, got, err)
		}
	}
	missing = unix.EIO
	if got, err := patched(1, []byte("x"), get); err != unix.EIO {
		t.Errorf("an attribute that cannot be read: %q, %v", got, err)
	}
	if got, err := patched(1<<31, []byte("x"), get); err != unix.E2BIG {
		t.Errorf("beyond all bounds: %d bytes, %v", len(got), err)
	}
	if string(value) != "abcdef" {
		t.Errorf("the value became %q", value)
	}
}
