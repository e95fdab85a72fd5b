package memo

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// machineFacts are what a program asks the kernel of itself and of the machine.
func machineFacts() string {
	var b strings.Builder
	for which := range 16 {
		var l unix.Rlimit
		_ = unix.Getrlimit(which, &l)
		if which == unix.RLIMIT_NOFILE {
			_ = unix.Prlimit(os.Getppid(), which, nil, &l) // Go raises its own, and gives the command the old one
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

// kernelSays is a hash of what the kernel says: of the content of a file that it
// makes up, of the names in such a directory, of the machine's name. What is not
// there, or may not be read, says that.
func kernelSays(path string) string {
	if path == unameOf {
		var u unix.Utsname
		_ = unix.Uname(&u)
		return fmt.Sprint(u)
	}
	st := look(path)
	return fmt.Sprint(st.Kind, st.Mode, st.UID, st.GID, hashFile(path), hashNames(path, false))
}

// inherited are the descriptors that a command gets from us beside the three
// usual ones. 3 is ours, then.
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
