package mounts

import (
	"io/fs"
	"os"
	"strconv"
	"strings"

	"cachebro/store/leaf/procfs"

	"golang.org/x/sys/unix"
)

// TellsOutside is true: Scan can tell who uses the source directly.
const TellsOutside = true

// Scan finds the processes that use something in dir. skip leaves some out.
//
// onMount are the ids of dir's own overlay mounts. inside false asks who uses the source
// directly, and leaves out everything that a process reached through one of these mounts.
// inside true asks who keeps the mount busy, and leaves out everything else. Not found
// are processes whose /proc we may not read or that are stuck in the kernel. With 300
// processes this takes about 10 ms.
func Scan(dir string, onMount map[int]bool, inside bool, skip func(pid int) bool) []Proc {
	found := eachProcess(func(pid int) (Proc, bool) {
		if skip != nil && skip(pid) {
			return Proc{}, false
		}
		return uses(pid, dir, onMount, inside)
	})
	sortProcs(found)
	return found
}

// uses looks at one process: its working and root directory first, then what it has open.
func uses(pid int, dir string, onMount map[int]bool, inside bool) (Proc, bool) {
	base := "/proc/" + strconv.Itoa(pid)
	hit := func(link, how string) (Proc, bool) {
		target, err := os.Readlink(link)
		if err != nil {
			return Proc{}, false
		}
		target = strings.TrimSuffix(target, " (deleted)")
		if !Within(target, dir) || onMount[mountOf(link)] != inside {
			return Proc{}, false
		}
		st, _ := procfs.ReadStat(pid)
		return Proc{PID: pid, Start: st.Start, Comm: st.Comm, How: how, Path: target}, true
	}
	if p, ok := hit(base+"/cwd", "working directory"); ok {
		return p, true
	}
	if p, ok := hit(base+"/root", "root"); ok {
		return p, true
	}
	fds, _ := os.ReadDir(base + "/fd")
	for _, fd := range fds {
		link := base + "/fd/" + fd.Name()
		target, err := os.Readlink(link)
		if err != nil || !Within(target, dir) {
			continue
		}
		how := "open file"
		flags, isDir := number(pid, fd.Name(), "flags", 8), false
		if fi, err := os.Lstat(link); err == nil && flags&unix.O_DIRECTORY != 0 {
			isDir, how = fi.Mode()&fs.ModeSymlink != 0, "open directory"
		}
		// A file that is only read from the source does no harm there; but every open
		// file keeps a mount busy.
		if !inside && !isDir && flags&unix.O_ACCMODE == unix.O_RDONLY {
			continue
		}
		if p, ok := hit(link, how); ok {
			return p, true
		}
	}
	if inside {
		if p, ok := hit(base+"/exe", "program"); ok {
			return p, true
		}
	}
	return Proc{}, false
}

// mountOf returns the id of the mount that a magic link leads to, 0 if unknown. Opening
// with O_PATH asks no file system.
func mountOf(link string) int {
	fd, err := unix.Open(link, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	return number(os.Getpid(), strconv.Itoa(fd), "mnt_id", 10)
}

// number returns a field of a descriptor's fdinfo, 0 if unknown.
func number(pid int, fd, name string, base int) int {
	b, _ := procfs.Read(pid, "fdinfo/"+fd)
	for field, value := range procfs.Fields(b) {
		if field == name {
			n, _ := strconv.ParseInt(value, base, 64)
			return int(n)
		}
	}
	return 0
}
