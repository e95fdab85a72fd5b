package sys

import (
	"os"
	"path/filepath"
	"testing"

	"cachebro/store/leaf/event"

	"golang.org/x/sys/unix"
)

// TestStatOnOverlay: an overlayfs copies a file to its upper layer before the file's first change,
// and from then on reports the copy's time of birth. The file stays the same one.
func TestStatOnOverlay(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to mount")
	}
	dir := t.TempDir()
	mount := func(source, target, kind, options string) {
		if err := unix.Mount(source, target, kind, 0, options); err != nil {
			t.Fatalf("mount %s: %v", kind, err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(target, 0); err != nil {
				t.Errorf("umount %s: %v", kind, err)
			}
		})
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	mount("tmpfs", dir, "tmpfs", "mode=700")
	for _, name := range []string{"lower/d", "upper", "work", "merged"} {
		if err := os.MkdirAll(at(name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(at("lower/d/f"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	mount("overlay", at("merged"), "overlay", "lowerdir="+at("lower")+",upperdir="+at("upper")+",workdir="+at("work"))
	inodes := func() (all [2]event.Inode) {
		for i, name := range []string{"merged/d", "merged/d/f"} {
			var s Stat
			if err := StatAt(unix.AT_FDCWD, at(name), &s); err != nil {
				t.Fatal(err)
			}
			if s.Born.Sec == 0 {
				t.Errorf("%s has no time of birth for programs", name)
			}
			all[i] = event.InodeOf(s.Stat)
		}
		return all
	}
	before := inodes()
	if err := os.WriteFile(at("merged/d/f"), []byte("y"), 0o600); err != nil {
		t.Fatal(err)
	}
	if after := inodes(); after != before {
		t.Errorf("after a change the files are %v, were %v", after, before)
	}
	var s Stat
	if err := StatAt(unix.AT_FDCWD, at("upper"), &s); err != nil || s.Birth == 0 {
		t.Errorf("a file on a tmpfs has the birth time %d: %v", s.Birth, err)
	}
}
