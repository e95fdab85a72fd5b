package displace

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"cachebro/store/leaf/procfs"

	"golang.org/x/sys/unix"
)

// Writers describes the processes that have a file open for writing: "by 4711 (tail)". It returns
// "" if they belong to another user and are not visible.
func Writers(fi fs.FileInfo) string {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	var by []string
	for _, pid := range slices.Sorted(slices.Values(procfs.All())) {
		if writes(pid, st) {
			comm, _ := procfs.Read(pid, "comm")
			by = append(by, fmt.Sprintf("%d (%s)", pid, strings.TrimSpace(string(comm))))
		}
	}
	const most = 3
	if len(by) > most {
		by = append(by[:most], fmt.Sprintf("%d more", len(by)-most))
	}
	if len(by) == 0 {
		return ""
	}
	return "by " + strings.Join(by, ", ")
}

// writes reports whether a process has the file open, or mapped, for writing.
func writes(pid int, st *syscall.Stat_t) bool {
	proc := "/proc/" + strconv.Itoa(pid)
	fds, _ := os.ReadDir(proc + "/fd")
	for _, fd := range fds {
		// Read fdinfo first, because a stat of a file on an unserved mount could block forever.
		info, _ := procfs.Read(pid, "fdinfo/"+fd.Name())
		ino, flags := uint64(0), uint64(0)
		for name, value := range procfs.Fields(info) {
			switch name {
			case "ino":
				ino, _ = strconv.ParseUint(value, 10, 64)
			case "flags":
				flags, _ = strconv.ParseUint(value, 8, 64)
			}
		}
		var is syscall.Stat_t
		if ino == st.Ino && flags&syscall.O_ACCMODE != syscall.O_RDONLY && flags&unix.O_PATH == 0 &&
			syscall.Stat(proc+"/fd/"+fd.Name(), &is) == nil && is.Dev == st.Dev {
			return true
		}
	}
	// A line has the fields address, perms, offset, dev, inode and path.
	maps, _ := procfs.Read(pid, "maps")
	for line := range bytes.Lines(maps) {
		if f := bytes.Fields(line); len(f) > 4 && bytes.HasPrefix(f[1], []byte("rw")) && f[1][3] == 's' && string(f[4]) == strconv.FormatUint(st.Ino, 10) {
			return true
		}
	}
	return false
}
