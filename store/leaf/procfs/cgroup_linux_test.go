package procfs

import (
	"os"
	"path/filepath"
	"testing"
)

// The lowest limit of a group and its ancestors counts. This holds for both versions of control
// groups, and for a container whose /proc shows the group's path on the host.
func TestMemoryGroup(t *testing.T) {
	for _, c := range []struct {
		name, groups string
		files        map[string]string
		limit        int64
		killed       uint64
	}{
		{"none", "0::/\n", nil, 0, 0},
		{"no limit", "0::/a\n", map[string]string{"a/memory.max": "max\n"}, 0, 0},
		{"version 2", "0::/a/b\n", map[string]string{"a/b/memory.max": "2000\n", "a/b/memory.events": "low 0\noom 7\noom_kill 3\n", "a/memory.max": "3000\n"}, 2000, 3},
		{"above", "0::/a/b\n", map[string]string{"a/b/memory.max": "max\n", "a/memory.max": "3000\n", "a/memory.events": "oom_kill 1\n"}, 3000, 1},
		{"a container", "0::/docker/1234\n", map[string]string{"memory.max": "500\n"}, 500, 0},
		{"version 1", "5:memory:/x\n0::/\n", map[string]string{"memory/x/memory.limit_in_bytes": "100\n", "memory/x/memory.oom_control": "under_oom 0\noom_kill 5\n", "memory/memory.limit_in_bytes": "9223372036854771712\n"}, 100, 5},
	} {
		dir := t.TempDir()
		for name, text := range c.files {
			name = filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if limit, killed := memoryGroup(c.groups, dir); limit != c.limit || killed != c.killed {
			t.Errorf("%s: %d, %d, want %d, %d", c.name, limit, killed, c.limit, c.killed)
		}
	}
}
