package procfs

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// MemoryGroup returns the memory limit of this process's control groups, 0 if there is none. killed
// is the number of their processes that the kernel has killed for lack of memory.
func MemoryGroup() (limit int64, killed uint64) {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return 0, 0
	}
	return memoryGroup(string(b), "/sys/fs/cgroup")
}

// memoryGroup evaluates /proc/self/cgroup, which has lines "ID:controllers:path". In a container,
// the path may be that of another namespace. Then only the top directory has the files.
func memoryGroup(groups, mounted string) (limit int64, killed uint64) {
	for line := range strings.Lines(groups) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) < 3 {
			continue
		}
		dir, most, events := "", "memory.max", "memory.events"
		switch {
		case f[1] == "":
		case f[1] == "memory":
			dir = "memory"
			most, events = "memory.limit_in_bytes", "memory.oom_control"
		default:
			continue
		}
		for at := filepath.Clean("/" + f[2]); ; at = filepath.Dir(at) {
			d := filepath.Join(mounted, dir, at)
			b, _ := os.ReadFile(filepath.Join(d, most))
			n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
			if err == nil && n < 1<<50 && (limit == 0 || n < limit) { // version 1 writes a huge number for "no limit"
				limit, killed = n, kills(filepath.Join(d, events))
			}
			if at == "/" {
				break
			}
		}
	}
	return limit, killed
}

// kills returns the oom_kill count in a file of "name number" lines.
func kills(name string) uint64 {
	b, _ := os.ReadFile(name)
	for line := range strings.Lines(string(b)) {
		if count, ok := strings.CutPrefix(line, "oom_kill "); ok {
			n, _ := strconv.ParseUint(strings.TrimSpace(count), 10, 64)
			return n
		}
	}
	return 0
}
