//go:build !portable

package fusefs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// twoDevices mounts a tmpfs on each of names below dir. The first file on each of these file
// systems has the same inode number.
func twoDevices(t *testing.T, dir string, names ...string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root to mount")
	}
	for _, name := range names {
		point := filepath.Join(dir, name)
		if err := os.MkdirAll(point, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("tmpfs", point, "tmpfs", 0, ""); err != nil {
			t.Skipf("mount tmpfs: %v", err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(point, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
	}
}

// Files of two file systems inside the project used to show the same device and inode number. diff
// found such files equal, cp and mv refused to work, tar and rsync made one file a link to the
// other, and find and du left out a directory.
func TestNumbersOfOtherDevices(t *testing.T) {
	f := mountTest(t, func(o *Options) {
		twoDevices(t, o.Mountpoint, "a", "b", "c", "a/deep")
		for name, text := range map[string]string{"a/f": "one\n", "b/f": "two\n", "a/deep/f": "three\n", "b/deep/f": "four\n", "g": "five\n"} {
			name = filepath.Join(o.Mountpoint, name)
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Link(filepath.Join(o.Mountpoint, "b/f"), filepath.Join(o.Mountpoint, "b/same")); err != nil {
			t.Fatal(err)
		}
	})
	for _, c := range []struct{ script, want string }{
		{"! diff a/f b/f >/dev/null && echo differ", "differ\n"},
		{"! cmp -s a/f b/f && echo differ", "differ\n"},
		{"! diff -r a/deep b/deep >/dev/null && echo differ", "differ\n"},
		{"test b/f -ef b/same && stat -c %h b/f", "2\n"},
		{"grep -rh . a b | sort | tr '\\n' ' '", "four one three two two "},
		{"find . -name f | sort | tr '\\n' ' '", "./a/deep/f ./a/f ./b/deep/f ./b/f "},
		{"find . -printf '%i\\n' | sort | uniq -d | wc -l", "1\n"}, // the two names of one file
		{"du -a --inodes . | wc -l", "11\n"},                       // the second name of a file is not counted
		{"tar cf c/t a b && mkdir c/x && tar xf c/t -C c/x && cat c/x/a/f c/x/b/f && rm -r c/*", "one\ntwo\n"},
		{"cp -a a b c && cat c/a/f c/b/f && test c/b/f -ef c/b/same && rm -r c/*", "one\ntwo\n"},
		{"if command -v rsync >/dev/null; then rsync -aH a b c && cat c/a/f c/b/f; else printf 'one\\ntwo\\n'; fi; rm -rf c/*", "one\ntwo\n"},
		{"cp a/f b/copied && cat b/copied && rm b/copied", "one\n"},
		{"cp b/f a/f && cat a/f && echo one >a/f", "two\n"},
		{"mv g a/f && cat a/f", "five\n"},
	} {
		if got := f.sh(c.script); got != c.want {
			t.Errorf("%s: %q, want %q", c.script, got, c.want)
		}
	}
	for _, dir := range []string{".", "a", "b", "b/deep", "a/deep"} {
		listedAsStat(t, filepath.Join(f.dir, dir))
	}
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(f.dir, "b/f"), &st); err != nil || st.Ino >= 1<<53 {
		t.Errorf("number %d, %v: JavaScript cannot tell it from its neighbours", st.Ino, err)
	}
}

// listedAsStat compares the numbers in a directory's listing with those of stat.
func listedAsStat(t *testing.T, dir string) {
	t.Helper()
	for again := range 2 {
		fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 64<<10)
		n, err := unix.Getdents(fd, buf)
		if err != nil {
			t.Fatal(err)
		}
		for rest := buf[:n]; len(rest) > 0; {
			e, size := direntOf(rest)
			rest = rest[size:]
			var st unix.Stat_t
			if e.Name == ".." && filepath.Base(dir) == "project" {
				continue // the parent of the project is on another file system
			}
			if err := unix.Fstatat(fd, e.Name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil || st.Ino != e.Ino {
				t.Errorf("%s (%d): %s is listed as %d, stat says %d, %v", dir, again, e.Name, e.Ino, st.Ino, err)
			}
		}
		unix.Close(fd)
	}
}

// If the number that a device usually gets already belongs to another device, the device gets the
// next number and keeps it.
func TestDevicesShareNoNumber(t *testing.T) {
	var d devices
	seen := map[uint64]uint64{}
	for dev := range uint64(3000) {
		no := d.numberOf(dev)
		if other, ok := seen[no]; ok || no == 0 || no >= deviceMax {
			t.Fatalf("device %d has number %d, as device %d", dev, no, other)
		}
		seen[no] = dev
	}
	for no, dev := range seen {
		if again := d.numberOf(dev); again != no {
			t.Fatalf("device %d had number %d, now %d", dev, no, again)
		}
	}
	for dev := range uint64(2 * deviceMax) {
		d.numberOf(dev) // numberOf must return although there are more devices than numbers
	}
}

// useNumbers checks that the inode numbers of files on two devices outlive a take-over. The second
// device is seen only after a first take-over.
func useNumbers(dir string, next func()) error {
	number := func(name string) (uint64, error) {
		var st unix.Stat_t
		err := unix.Stat(filepath.Join(dir, name), &st)
		return st.Ino, err
	}
	a, err := number("a/f")
	if err != nil {
		return err
	}
	next()
	b, err := number("b/f") // a device that is seen for the first time
	if err != nil {
		return err
	}
	next()
	for name, want := range map[string]uint64{"a/f": a, "b/f": b} {
		if is, err := number(name); err != nil || is != want {
			return fmt.Errorf("%s had number %d, after the take-over %d, %v", name, want, is, err)
		}
	}
	if a == b {
		return fmt.Errorf("both files have number %d", a)
	}
	return nil
}

func TestNumbersOutliveTheServer(t *testing.T) {
	h := newHeirsOf(t, func(dir string) {
		twoDevices(t, dir, "a", "b")
		for _, name := range []string{"a/f", "b/f"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	})
	h.use("numbers")
	l, err := openLedger(h.ledger)
	if err != nil {
		t.Fatal(err)
	}
	defer l.unmap()
	var kept []string
	l.slots(func(ref, kind uint32) {
		if kind == slotDevice {
			s := (*deviceSlot)(l.at(ref))
			kept = append(kept, fmt.Sprint(s.dev, " ", s.number))
		}
	})
	if len(kept) != 2 {
		t.Errorf("the ledger has the devices %s, want two", strings.Join(kept, ", "))
	}
}
