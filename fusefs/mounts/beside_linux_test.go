package mounts

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"testing"

	"cachebro/store/leaf/procfs"
)

// TestKernelThreadsAreNoWay: a namespace that only kernel threads use, such as that of kdevtmpfs,
// gives no process a way past the mount, so newTable skips kernel threads.
func TestKernelThreadsAreNoWay(t *testing.T) {
	if own, ok := newTable(os.Getpid(), map[string]bool{}); !ok || own.pid != os.Getpid() || len(own.mounts) == 0 {
		t.Errorf("of this process: %+v %v", own, ok)
	}
	for _, pid := range procfs.All() {
		_, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe")
		if st, serr := procfs.ReadStat(pid); !errors.Is(err, fs.ErrNotExist) || serr != nil || st.State == 'Z' || st.Flags&procfs.Exiting != 0 {
			continue // the thread has a program, may not be examined, or is ending
		}
		if got, ok := newTable(pid, map[string]bool{}); ok {
			comm, _ := procfs.Comm(pid)
			t.Errorf("of the kernel thread %s: %+v", comm, got)
		}
	}
}

// TestWaysTo: a way is recognised by the file system, by the directory in it, and by the mounts
// that hide it. The form of its path does not matter.
func TestWaysTo(t *testing.T) {
	const over = `20 1 8:1 / / rw - ext4 /dev/sda1 rw
30 20 0:50 / /home/u/p rw - fuse.cachebro /home/u/p rw
`
	for _, c := range []struct{ name, more, way string }{
		{"covered by the overlay", "", ""},
		{"a bind mount of it", "40 20 8:1 /home/u/p /mnt/b rw - ext4 /dev/sda1 rw\n", "/mnt/b"},
		{"of a directory above", "40 20 8:1 /home /srv rw - ext4 /dev/sda1 rw\n", "/srv/u/p"},
		{"of a part of it", "40 20 8:1 /home/u/p/sub /vol rw - ext4 /dev/sda1 rw\n", "/vol"},
		{"of something beside it", "40 20 8:1 /home/u/pp /mnt/b rw - ext4 /dev/sda1 rw\n", ""},
		{"of another file system", "40 20 8:2 /home/u/p /mnt/b rw - ext4 /dev/sdb1 rw\n", ""},
		{"of the overlay", "40 20 0:50 / /mnt/b rw - fuse.cachebro /home/u/p rw\n", ""},
		{"hidden by another mount", "40 20 8:1 /home /srv rw - ext4 /dev/sda1 rw\n41 40 0:60 / /srv/u rw - tmpfs tmpfs rw\n", ""},
		{"two bind mounts", "40 20 8:1 /home/u/p /mnt/b rw - ext4 /dev/sda1 rw\n41 20 8:1 /home /srv rw - ext4 /dev/sda1 rw\n", "/mnt/b /srv/u/p"},
		{"a second mount of the device", "40 20 8:1 / /mnt rw - ext4 /dev/sda1 rw\n", "/mnt/home/u/p"},
	} {
		if ways := strings.Join(waysTo(parseMounts(over+c.more), "8:1", "/home/u/p"), " "); ways != c.way {
			t.Errorf("%s: %q, want %q", c.name, ways, c.way)
		}
	}
	if ways := waysTo(parseMounts("50 49 8:1 / / rw - ext4 /dev/sda1 rw\n"), "8:1", "/home/u/p"); len(ways) != 1 || ways[0] != "/home/u/p" {
		t.Errorf("a namespace from before the overlay: %q", ways)
	}
}
