package fusefs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// File systems that are mounted inside the source can be used through the mount, except those of
// the kernel, such as procfs. When procfs was allowed, any user could make mountd open
// /proc/PID/uid_map for writing as root.
func TestMountsBelow(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to mount")
	}
	f := mountTest(t, func(o *Options) {
		mount := func(source, name, kind string, flags uintptr) {
			t.Helper()
			point := filepath.Join(o.Mountpoint, name)
			if err := unix.Mount(source, point, kind, flags, ""); err != nil {
				t.Skipf("mount %s: %v", kind, err)
			}
			t.Cleanup(func() {
				if err := unix.Unmount(point, unix.MNT_DETACH); err != nil {
					t.Error(err)
				}
			})
		}
		for _, name := range []string{"proc", "sys", "memory"} {
			if err := os.Mkdir(filepath.Join(o.Mountpoint, name), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{"map", "plain"} {
			if err := os.WriteFile(filepath.Join(o.Mountpoint, name), []byte("below\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		mount("proc", "proc", "proc", 0)
		mount("sysfs", "sys", "sysfs", 0)
		mount("tmpfs", "memory", "tmpfs", 0)
		mount("/proc/self/uid_map", "map", "", unix.MS_BIND)
	})
	in := func(name string) string { return filepath.Join(f.dir, name) }
	for _, name := range []string{"proc/self/uid_map", "proc/1/uid_map", "proc/sys/kernel/core_pattern", "sys/power/state", "map"} {
		for _, flags := range []int{os.O_RDONLY, os.O_WRONLY, os.O_RDWR} {
			file, err := os.OpenFile(in(name), flags, 0)
			if err == nil {
				file.Close()
			}
			if !errors.Is(err, unix.EACCES) {
				t.Errorf("open %s with %#x: %v, want EACCES", name, flags, err)
			}
		}
	}
	for _, name := range []string{"proc", "sys"} {
		if names, err := os.ReadDir(in(name)); !errors.Is(err, unix.EACCES) || len(names) > 0 {
			t.Errorf("list %s: %d names, %v", name, len(names), err)
		}
		if err := os.Mkdir(in(name+"/new"), 0o755); !errors.Is(err, unix.EACCES) {
			t.Errorf("make a directory in %s: %v", name, err)
		}
	}
	if err := os.Truncate(in("map"), 0); !errors.Is(err, unix.EACCES) {
		t.Errorf("truncate a file of procfs: %v", err)
	}
	if err := os.Chmod(in("map"), 0o600); !errors.Is(err, unix.EACCES) {
		t.Errorf("chmod a file of procfs: %v", err)
	}
	// Other file systems can be used through the mount.
	if err := os.WriteFile(in("memory/a"), []byte("in memory\n"), 0o644); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(filepath.Join(f.src, "memory/a")); err != nil || string(b) != "in memory\n" {
		t.Errorf("on the source: %q, %v", b, err)
	}
	if b, err := os.ReadFile(in("plain")); err != nil || string(b) != "below\n" {
		t.Errorf("a file beside them: %q, %v", b, err)
	}
	if err := os.Rename(in("plain"), in("memory/plain")); !errors.Is(err, unix.EXDEV) {
		t.Errorf("rename into another file system: %v, want EXDEV", err)
	}
}
