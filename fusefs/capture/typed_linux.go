package capture

import (
	"encoding/binary"
	"iter"
	"os"
	"strconv"
	"strings"

	"cachebro/fusefs"

	"golang.org/x/sys/unix"
)

// typed finds out with inotify which terminals were read. A watch reports one event, which waits in
// the kernel until readTerminals is called. So typing costs nothing, and each record of a shell's
// operation costs one read(2).
type typed struct {
	fd   int
	open bool
}

func (t *typed) close() {
	if t.open {
		unix.Close(t.fd)
	}
	t.open = false
}

// watch begins to watch the terminal of a process. It returns the id of the watch, or 0 if that is
// impossible.
func (t *typed) watch(p *fusefs.Process) int {
	if !t.open {
		fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
		if err != nil {
			return 0
		}
		t.fd, t.open = fd, true
	}
	for _, pid := range []uint32{p.PID, p.Leader} {
		for _, fd := range terminalFiles {
			if wd := t.watchFile("/proc/"+strconv.Itoa(int(pid))+"/fd/"+fd, p.Terminal); wd > 0 {
				return wd
			}
		}
	}
	return 0
}

// terminalFiles are the descriptors on which a process may have its terminal. In "while read …;
// done <file" the first three are redirected, but the shell keeps a copy: 255 in bash, 10 in zsh
// and dash.
var terminalFiles = []string{"0", "1", "2", "255", "10"}

// watchFile watches a terminal through a process's descriptor, because the terminal may be in a
// devpts other than ours. The name is checked first, because a stat of a file on the mount would
// wait for this process, which serves the mount.
func (t *typed) watchFile(name string, terminal uint64) int {
	if to, err := os.Readlink(name); err != nil || !strings.HasPrefix(to, "/dev/pts/") && !strings.HasPrefix(to, "/dev/tty") {
		return 0
	}
	var st unix.Stat_t
	if unix.Stat(name, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR || !sameTerminal(st.Rdev, terminal) {
		return 0
	}
	wd, err := unix.InotifyAddWatch(t.fd, name, unix.IN_ACCESS|unix.IN_ONESHOT)
	if err != nil {
		return 0
	}
	return wd
}

// sameTerminal compares the device number of a file with the terminal number in /proc/PID/stat.
func sameTerminal(dev, terminal uint64) bool {
	return uint64(unix.Major(dev)) == terminal>>8&0xfff && uint64(unix.Minor(dev)) == terminal&0xff|terminal>>12&0xfff00
}

// readTerminals returns the ids of watches whose terminals were read since the watch began, and of
// watches that ended for another reason.
func (t *typed) readTerminals() iter.Seq[int] {
	return func(yield func(int) bool) {
		var buf [64 * unix.SizeofInotifyEvent]byte
		for t.open {
			n, err := unix.Read(t.fd, buf[:])
			if err == unix.EINTR {
				continue
			}
			if err != nil || n < unix.SizeofInotifyEvent {
				return
			}
			for b := buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
				wd, name := int(int32(binary.NativeEndian.Uint32(b))), int(binary.NativeEndian.Uint32(b[12:]))
				if !yield(wd) {
					return
				}
				b = b[min(len(b), unix.SizeofInotifyEvent+name):]
			}
		}
	}
}
