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

// typed notices that terminals were read, by inotify: a watch is for one event, which
// waits in the kernel until somebody asks. So typing costs nothing here, and only a
// record of a shell costs one read.
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

// watch begins to watch the terminal of a process; 0: it cannot be watched.
func (t *typed) watch(p *fusefs.Process) int {
	if !t.open {
		fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
		if err != nil {
			return 0
		}
		t.fd, t.open = fd, true
	}
	for _, pid := range []uint32{p.PID, p.Leader} {
		// By what the process has open: its terminal may be of another devpts than ours.
		// The name comes first: a file of the mount itself must not be asked about here.
		name := "/proc/" + strconv.Itoa(int(pid)) + "/fd/0"
		if to, err := os.Readlink(name); err != nil || !strings.HasPrefix(to, "/dev/pts/") && !strings.HasPrefix(to, "/dev/tty") {
			continue
		}
		var st unix.Stat_t
		if unix.Stat(name, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR || !sameTerminal(st.Rdev, p.Terminal) {
			continue
		}
		if wd, err := unix.InotifyAddWatch(t.fd, name, unix.IN_ACCESS|unix.IN_ONESHOT); err == nil && wd > 0 {
			return wd
		}
	}
	return 0
}

// sameTerminal compares a device with how /proc/PID/stat numbers it.
func sameTerminal(dev, terminal uint64) bool {
	return uint64(unix.Major(dev)) == terminal>>8&0xfff && uint64(unix.Minor(dev)) == terminal&0xff|terminal>>12&0xfff00
}

// since are the watches whose terminals have been read since they began, or that ended
// otherwise.
func (t *typed) since() iter.Seq[int] {
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
