package mounts

import (
	"os"
	"path"
	"strconv"
	"strings"

	"cachebro/store/leaf/procfs"

	"golang.org/x/sys/unix"
)

// DatabaseUsers finds processes that use a file in dir like a database: they have it open for
// reading and writing, mapped as writable shared memory, or locked. After a mount on dir, they
// would go on using the covered directory with their own cached pages. Processes that only write (a
// log) or only read are not returned. Files that this process has open too are ignored, because it
// inherited them from the shell. With 300 processes this takes about 10 ms.
func DatabaseUsers(dir string, skip func(pid int) bool) []Proc {
	self := os.Getpid()
	own := map[string]bool{}
	fds, _ := os.ReadDir("/proc/self/fd")
	for _, fd := range fds {
		if target, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil {
			own[target] = true
		}
	}
	found := eachProcess(func(pid int) (Proc, bool) {
		if pid == self || skip(pid) {
			return Proc{}, false
		}
		file, how := databaseOf(pid, dir, own)
		if file == "" {
			return Proc{}, false
		}
		st, _ := procfs.ReadStat(pid)
		return Proc{PID: pid, Start: st.Start, Comm: st.Comm, How: how, Path: file}, true
	})
	sortProcs(found)
	return found
}

// databaseOf returns a file that a process uses like a database, and how the process uses it.
func databaseOf(pid int, dir string, own map[string]bool) (file, how string) {
	base := "/proc/" + strconv.Itoa(pid)
	fds, _ := os.ReadDir(base + "/fd")
	for _, fd := range fds {
		target, err := os.Readlink(base + "/fd/" + fd.Name())
		inside := err == nil && Within(target, dir)
		if !inside || own[target] || strings.HasSuffix(target, " (deleted)") || swapFile(target) {
			continue
		}
		if b, _ := procfs.Read(pid, "fdinfo/"+fd.Name()); strings.Contains(string(b), "\nlock:") {
			return target, "locked file"
		}
		flags := number(pid, fd.Name(), "flags", 8)
		if flags&unix.O_ACCMODE == unix.O_RDWR {
			return target, "open for writing"
		}
	}
	maps, _ := procfs.Read(pid, "maps")
	for line := range strings.Lines(string(maps)) {
		// A line looks like this: "7f12-7f13 rw-s 00000000 fe:00 1234   /path".
		at := strings.SplitN(strings.TrimSpace(line), " ", 6)
		if len(at) < 6 || !strings.HasPrefix(at[1], "rw") || !strings.HasSuffix(at[1], "s") {
			continue
		}
		if target := strings.TrimSpace(at[5]); Within(target, dir) && !strings.HasSuffix(target, " (deleted)") {
			return target, "mapped file"
		}
	}
	return "", ""
}

func swapFile(name string) bool {
	ok, _ := path.Match(".*.sw[a-p]", path.Base(name))
	return ok
}
