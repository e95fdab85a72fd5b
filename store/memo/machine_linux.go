package memo

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// machineFacts returns what a program can ask the kernel about itself and the machine.
func machineFacts() string {
	var b strings.Builder
	for which := range 16 {
		var l unix.Rlimit
		_ = unix.Getrlimit(which, &l)
		if which == unix.RLIMIT_NOFILE {
			_ = unix.Prlimit(os.Getppid(), which, nil, &l) // Go raises its own limit, and restores the old one for the command
		}
		fmt.Fprintf(&b, "%d/%d ", l.Cur, l.Max)
	}
	var cpus unix.CPUSet
	_ = unix.SchedGetaffinity(0, &cpus)
	groups, _ := os.Getgroups()
	fmt.Fprintf(&b, "%v %v %d %d", cpus, groups, os.Getgid(), os.Getegid())
	var caps [2]unix.CapUserData
	_ = unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &caps[0])
	fmt.Fprintf(&b, " %v", caps)
	return b.String()
}

// kernelSays returns a text for what the kernel reports. This is the content of a file or the names
// in a directory that the kernel generates, or the machine's name. Missing and unreadable files
// have special texts.
func kernelSays(path string) string {
	if path == unameOf {
		var u unix.Utsname
		_ = unix.Uname(&u)
		return fmt.Sprint(u)
	}
	st := look(path)
	return fmt.Sprint(st.Kind, st.Mode, st.UID, st.GID, hashFile(path), hashNames(path, false))
}

// inherited returns the descriptors that a command inherits besides the three standard ones.
// Descriptor 3 belongs to this package.
func inherited() (all []int) {
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil
	}
	for _, fd := range fds {
		n, err := strconv.Atoi(fd.Name())
		if err != nil || n <= 3 {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(n), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			all = append(all, n)
		}
	}
	return all
}
