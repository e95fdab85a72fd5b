package sys

import (
	"os"
	"path/filepath"
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

// A symbolic link, or a name that leads out of the directory, is never followed,
// whatever it is opened for; as a Place a link itself is open.
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

// Times that do not fit in nanoseconds of one int64 go through whole, both ways, and
// what is to stay stays.
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

// A file that lost its name, or changed it, is opened again through its descriptor.
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
