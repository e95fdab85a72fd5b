package e2e

import (
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/hanwen/go-fuse/v2/posixtest"
)

// TestPosix runs go-fuse's own conformance tests on a mount with overlay, capture and store
// daemon.
func TestPosix(t *testing.T) {
	p := newProject(t, map[string]string{"a.txt": "1\n"})
	p.mount()
	names := make([]string, 0, len(posixtest.All))
	for name := range posixtest.All {
		if name == "FcntlFlockLocksFile" {
			// This test expects a conflict between two POSIX locks of one process. There is none
			// on a plain directory either, so go-fuse skips it there too.
			continue
		}
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(p.dir, strings.ReplaceAll(name, "/", "_"))
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			posixtest.All[name](t, dir)
		})
	}
}
