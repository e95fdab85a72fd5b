//go:build !portable

package fusefs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// RENAME_WHITEOUT used to be refused, so no overlayfs could have its upper directory on the mount.
// Then the device was not reported, so an undo could not move the file back to its name.
func TestRenameWhiteout(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to make a device")
	}
	f := mountTest(t, nil)
	f.write("old", "moved\n")
	f.write("there", "replaced\n")
	in := func(name string) string { return filepath.Join(f.dir, name) }
	f.told()
	f.rec.take()
	if err := unix.Renameat2(unix.AT_FDCWD, in("old"), unix.AT_FDCWD, in("there"), unix.RENAME_WHITEOUT); err != nil {
		t.Fatal(err)
	}
	f.want(t, `before rename there "replaced\n"`, `done rename old there (replaced)`, `done mknod old`)
	if got := f.read("there"); got != "moved\n" {
		t.Errorf("the new name has %q", got)
	}
	var st unix.Stat_t
	if err := unix.Lstat(in("old"), &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != 0 {
		t.Errorf("the old name: mode %o, device %d, %v; want a whiteout", st.Mode, st.Rdev, err)
	}
	err := unix.Renameat2(unix.AT_FDCWD, in("there"), unix.AT_FDCWD, in("old"), unix.RENAME_WHITEOUT|unix.RENAME_NOREPLACE)
	if !errors.Is(err, unix.EEXIST) {
		t.Errorf("onto a name that is taken: %v, want EEXIST", err)
	}
	if err := os.Remove(in("old")); err != nil {
		t.Error(err)
	}
}

// An overlayfs can have its upper directory on the mount.
func TestOverlayOnTheMount(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to mount")
	}
	f := mountTest(t, nil)
	out := f.sh(`mkdir upper work
lower=$(mktemp -d) merged=$(mktemp -d)
echo below >$lower/f
trap 'umount $merged; rm -r $lower $merged' EXIT
mount -t overlay overlay -o lowerdir=$lower,upperdir=$PWD/upper,workdir=$PWD/work $merged
mv $merged/f $merged/g
cat $merged/g
test ! -e $merged/f
stat -c %F upper/f`)
	if out != "below\ncharacter special file\n" {
		t.Errorf("%q", out)
	}
}
