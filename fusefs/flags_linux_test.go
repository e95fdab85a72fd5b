//go:build !portable

package fusefs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestFlags: lsattr and chattr did not work on the mount ("Inappropriate ioctl for
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
