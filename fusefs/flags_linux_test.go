//go:build !portable

package fusefs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestFlags: lsattr and chattr work on the mount. They used to fail ("Inappropriate ioctl for
// device").
func TestFlags(t *testing.T) {
	f := mountTest(t, nil)
	if err := exec.Command("lsattr", "-d", filepath.Dir(f.dir)).Run(); err != nil {
		t.Skipf("the source has no such flags: %v", err)
	}
	f.write("a", "text")
	if err := os.Mkdir(filepath.Join(f.dir, "d"), 0o755); err != nil {
		t.Fatal(err)
	}
	flags := func(dir, name string) string {
		t.Helper()
		out, err := exec.Command("lsattr", "-d", filepath.Join(dir, name)).CombinedOutput()
		if err != nil {
			t.Errorf("lsattr: %v, %s", err, out)
		}
		return strings.Fields(string(out) + " x")[0]
	}
	source := fmt.Sprintf("/proc/%d%s", os.Getpid(), strings.TrimPrefix(f.src, "/proc/self"))
	for _, name := range []string{"a", "d"} {
		if out, err := exec.Command("chattr", "+d", filepath.Join(f.dir, name)).CombinedOutput(); err != nil {
			t.Errorf("chattr: %v, %s", err, out)
		}
		if on, under := flags(f.dir, name), flags(source, name); on != under || !strings.Contains(on, "d") {
			t.Errorf("%s: %s on the mount, %s on the source", name, on, under)
		}
	}
}

// TestAppendOnly: a file that allows only appends can be opened for appending on the mount. This
// used to fail, because our descriptor of the file was opened without O_APPEND.
func TestAppendOnly(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a file append-only")
	}
	f := mountTest(t, nil)
	f.write("log", "one\n")
	name := filepath.Join(f.dir, "log")
	if out, err := exec.Command("chattr", "+a", name).CombinedOutput(); err != nil {
		t.Skipf("the source has no such files: %s", out)
	}
	defer func() { _ = exec.Command("chattr", "-a", name).Run() }()
	for _, flags := range []int{os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC, os.O_WRONLY | os.O_APPEND | os.O_TRUNC} {
		if g, err := os.OpenFile(name, flags, 0); !errors.Is(err, os.ErrPermission) {
			g.Close()
			t.Errorf("open with %#x: %v", flags, err)
		}
	}
	for _, flags := range []int{os.O_WRONLY, os.O_RDWR} {
		g, err := os.OpenFile(name, flags|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.WriteString("more\n"); err != nil {
			t.Error(err)
		}
		if flags == os.O_RDWR { // the native file system does not allow such a mapping either
			if err := storeMapped(g, "xxx"); err == nil {
				t.Error("what is stored in a mapping is not refused")
			}
		}
		g.Close()
	}
	const want = "one\nmore\nmore\n"
	if b, err := os.ReadFile(filepath.Join(f.src, "log")); err != nil || string(b) != want {
		t.Errorf("on the source: %q, %v", b, err)
	}
	var b []byte
	eventuallyOr(func() bool { b, _ = os.ReadFile(name); return string(b) == want })
	if string(b) != want {
		t.Errorf("on the mount: %q", b)
	}
}
