//go:build linux || darwin

package sys

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func place(t *testing.T, dir string) int {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// A symbolic link, or a name that leads out of the directory, is never followed, whatever the flags
// of the open are. With Place, the link itself can be opened.
func TestOpenFollowsNothing(t *testing.T) {
	root := t.TempDir()
	in := filepath.Join(root, "in")
	for _, err := range []error{
		os.Mkdir(in, 0o755), os.WriteFile(filepath.Join(root, "secret"), []byte("s"), 0o644),
		os.Symlink("../secret", filepath.Join(in, "link")), os.Symlink("..", filepath.Join(in, "up")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	dir := place(t, in)
	for _, name := range []string{"link", "up", "up/secret", "../secret", filepath.Join(root, "secret")} {
		if fd, err := Open(dir, name, unix.O_RDONLY, 0); err == nil {
			unix.Close(fd)
			t.Errorf("%s was opened", name)
		}
	}
	link := At(dir, "link")
	if Points {
		fd, err := Open(dir, "link", Place, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		link = FD(fd)
	}
	if to, err := Target(link); string(to) != "../secret" || err != nil {
		t.Errorf("link points to %q, %v", to, err)
	}
}

// Times that do not fit into an int64 of nanoseconds are set and read exactly, and times that are
// to stay unchanged do not change.
func TestTimesStayWhole(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "f"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	fd, err := Open(place(t, root), "f", Place, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	far := Time{Sec: time.Date(2400, 1, 1, 0, 0, 0, 0, time.UTC).Unix(), Nsec: 123456789}
	if runtime.GOOS == "darwin" {
		far.Sec = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC).Unix() // times of APFS end in 2262
	}
	old := Time{Sec: -2, Nsec: 999999999}
	var s Stat
	check := func(accessed, modified Time) {
		t.Helper()
		if err := StatFD(fd, &s); err != nil || s.Accessed != accessed || s.Modified != modified {
			t.Errorf("%v, %v (%v), not %v, %v", s.Accessed, s.Modified, err, accessed, modified)
		}
	}
	if err := SetTimes(FD(fd), old, far); err != nil {
		t.Fatal(err)
	}
	check(old, far)
	if err := SetTimes(FD(fd), Unchanged, old); err != nil {
		t.Fatal(err)
	}
	check(old, old)
	if s.Mtime != -1_000_000_001 {
		t.Errorf("%d ns", s.Mtime)
	}
}

// A file that has lost or changed its name can be opened again through its descriptor.
func TestOpenAgain(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "f"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := place(t, root)
	fd, err := Open(dir, "f", Place, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := Rename(dir, "f", dir, "g", NoReplace); err != nil {
		t.Fatal(err)
	}
	if err := unix.Unlinkat(dir, "g", 0); err != nil {
		t.Fatal(err)
	}
	again, err := OpenAgain(fd, unix.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(again)
	b := make([]byte, 8)
	if n, err := unix.Read(again, b); string(b[:max(n, 0)]) != "text" || err != nil {
		t.Errorf("%q, %v", b[:max(n, 0)], err)
	}
}

// A directory is listed completely, however little fits into one call, with the kind of each entry.
// A FIFO and an empty file can be made by name.
func TestEntries(t *testing.T) {
	root := t.TempDir()
	dir := place(t, root)
	want := []string{".", ".."}
	for i := range 40 {
		name := string(rune('a'+i%26)) + "-\u00e9-" + time.Duration(i).String()
		if err := Mknod(dir, name, unix.S_IFREG|0o600, 0); err != nil {
			t.Fatal(err)
		}
		want = append(want, name)
	}
	if err := Mknod(dir, "fifo", unix.S_IFIFO|0o600, 0); err != nil {
		t.Fatal(err)
	}
	want = append(want, "fifo")
	var got []string
	buf := make([]byte, 600)
	for {
		n, err := Dirents(dir, buf)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
		for b := buf[:n]; len(b) > 0; {
			e, size := ParseDirent(b)
			b = b[size:]
			got = append(got, e.Name)
			var s Stat
			if e.Name == ".." {
				continue
			}
			if err := StatAt(dir, e.Name, &s); err != nil || e.Mode != 0 && e.Mode != s.Mode&unix.S_IFMT || e.Ino != s.Ino {
				t.Errorf("%q: listed as %o, %d; is %o, %d (%v)", e.Name, e.Mode, e.Ino, s.Mode, s.Ino, err)
			}
		}
	}
	slices.Sort(want)
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("%q\nnot %q", got, want)
	}
}

// Two names are exchanged, and neither is replaced. Space is allocated with and without a change of
// the size.
func TestRenameAndAllocate(t *testing.T) {
	root := t.TempDir()
	dir := place(t, root)
	for _, name := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := Rename(dir, "a", dir, "b", NoReplace); err != unix.EEXIST {
		t.Errorf("b was replaced: %v", err)
	}
	if err := Rename(dir, "a", dir, "b", Exchange); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(root, "a")); string(b) != "b" || err != nil {
		t.Errorf("a holds %q, %v", b, err)
	}
	f, err := os.OpenFile(filepath.Join(root, "a"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fd := int(f.Fd())
	var s Stat
	for _, c := range []struct {
		mode uint32
		size int64
	}{{KeepSize, 1}, {0, 10000}} {
		if err := Allocate(fd, c.mode, 0, 10000); err != nil {
			t.Fatal(err)
		}
		if err := StatFD(fd, &s); err != nil || s.Size != c.size || s.Blocks*512 < 10000 {
			t.Errorf("mode %d: %d bytes in %d blocks, %v", c.mode, s.Size, s.Blocks, err)
		}
	}
	for _, content := range []bool{false, true} {
		if err := Sync(fd, content); err != nil {
			t.Error(err)
		}
	}
}

// TestSameName compares pairs of names. Some of them are equal on a volume that ignores case and
// normalises names, and some are not.
func TestSameName(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"readme", "README", true}, {"caf\u00e9", "cafe\u0301", true}, {"CAF\u00c9", "cafe\u0301", true},
		{"\u212bngstrom", "a\u030aNGSTROM", true}, {"a", "b", false}, {"cafe", "caf\u00e9", false}, {"a", "a ", false},
	} {
		if SameName(c.a, c.b) != c.same || SameName(c.b, c.a) != c.same {
			t.Errorf("%q, %q: %v", c.a, c.b, !c.same)
		}
	}
	if got := spelling("A", []string{"x", "a"}); got != "a" {
		t.Errorf("of two links, %q", got)
	}
	if got := spelling("A", []string{"x"}); got != "x" {
		t.Errorf("the volume says %q", got)
	}
}
