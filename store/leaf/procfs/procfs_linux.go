package procfs

import (
	"bytes"
	"fmt"
	"iter"
	"os"
	"strconv"
	"strings"
	"time"

	"cachebro/store/leaf/loop"

	"golang.org/x/sys/unix"
)

// All returns the IDs of all visible processes in any order.
func All() []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Read returns the content of /proc/PID/name. pid may be a thread ID.
func Read(pid int, name string) ([]byte, error) {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	buf := make([]byte, 0, 4096)
	for {
		n, err := unix.Read(fd, buf[len(buf):cap(buf)])
		switch {
		case err == unix.EINTR:
			continue
		case err != nil || n == 0:
			return buf, err
		}
		buf = buf[:len(buf)+n]
		if name == "stat" || name == "status" || name == "comm" {
			return buf, nil // the kernel returns these files in one read
		}
		if len(buf) == cap(buf) {
			if len(buf) >= maxFile {
				return buf, nil
			}
			buf = append(buf, 0)[:len(buf)]
		}
	}
}

// Fields iterates over the lines "name: value" of a status or fdinfo file.
func Fields(text []byte) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for line := range strings.Lines(string(text)) {
			name, value, ok := strings.Cut(line, ":")
			if ok && !yield(name, strings.TrimSpace(value)) {
				return
			}
		}
	}
}

// ReadStat reads the Stat of a process or thread from /proc/PID/stat.
func ReadStat(pid int) (Stat, error) {
	b, err := Read(pid, "stat")
	if err != nil {
		return Stat{}, err
	}
	return parseStat(pid, b)
}

func parseStat(pid int, b []byte) (st Stat, err error) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')') // the name in parentheses may contain any character
	if open < 0 || end < open {
		return st, malformed(pid)
	}
	f := bytes.Fields(b[end+1:]) // starting at field 3, the state
	if len(f) < 20 {
		return st, malformed(pid)
	}
	st.Comm, st.State = string(b[open+1:end]), f[0][0]
	var err1, err2, err3, err4 error
	if terminal, err := strconv.ParseInt(string(f[4]), 10, 64); err == nil && terminal != 0 {
		st.Terminal = uint64(uint32(terminal))
		st.Session, _ = strconv.Atoi(string(f[3]))
		st.Foreground, _ = strconv.Atoi(string(f[5]))
	}
	st.Parent, err1 = strconv.Atoi(string(f[1]))
	st.Group, err4 = strconv.Atoi(string(f[2]))
	st.Flags, err2 = strconv.ParseUint(string(f[6]), 10, 64)
	st.Start, err3 = strconv.ParseUint(string(f[19]), 10, 64)
	if len(f) > 25 {
		st.Image, _ = strconv.ParseUint(string(f[25]), 10, 64)
	}
	if err1 != nil || err2 != nil || err3 != nil || err4 != nil {
		return Stat{}, malformed(pid)
	}
	return st, nil
}

func malformed(pid int) error { return fmt.Errorf("stat of process %d: unexpected form", pid) }

// KillPending reports whether SIGKILL is pending for a process or thread. The kernel turns every
// fatal signal into SIGKILL.
func KillPending(pid int) (bool, error) {
	b, err := Read(pid, "status")
	if err != nil {
		return false, err
	}
	for name, mask := range Fields(b) {
		if name != "SigPnd" && name != "ShdPnd" {
			continue
		}
		bits, err := strconv.ParseUint(mask, 16, 64)
		if err != nil {
			return false, err
		}
		if bits&(1<<(unix.SIGKILL-1)) != 0 {
			return true, nil
		}
	}
	return false, nil
}

// Begin returns at most the first n bytes of a process's arguments, each ended by a NUL. A command
// line may have megabytes. Begin usually needs one system call.
func Begin(pid, n int) ([]byte, error) {
	if n >= maxFile {
		return Read(pid, "cmdline")
	}
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/cmdline", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	buf := make([]byte, n)
	got, err := loop.RetryValue(func() (int, error) { return unix.Read(fd, buf) })
	return buf[:max(got, 0)], err
}

// Comm returns the name of a process, at most 15 bytes. It is cheaper than ReadStat.
func Comm(pid int) (string, error) {
	b, err := Read(pid, "comm")
	return strings.TrimSuffix(string(b), "\n"), err
}

// Environ returns the environment that a process was started with, each variable ended by a NUL.
func Environ(pid int) ([]byte, error) { return Read(pid, "environ") }

// Owner returns the effective user of a process, who owns its directory in /proc.
func Owner(pid int) (uint32, bool) {
	var st unix.Stat_t
	if unix.Stat("/proc/"+strconv.Itoa(pid), &st) != nil {
		return 0, false
	}
	return st.Uid, true
}

// Thread returns the process of a thread and its supplementary groups.
func Thread(tid int) (pid int, groups []uint32, ok bool) {
	b, err := Read(tid, "status")
	if err != nil {
		return 0, nil, false
	}
	for name, value := range Fields(b) {
		switch name {
		case "Tgid":
			pid, err = strconv.Atoi(value)
			ok = err == nil
		case "Groups":
			return pid, Groups(value), ok
		}
	}
	return pid, nil, ok
}

// Groups parses the field Groups of a status file.
func Groups(field string) (groups []uint32) {
	for f := range strings.FieldsSeq(field) {
		if g, err := strconv.ParseUint(f, 10, 32); err == nil {
			groups = append(groups, uint32(g))
		}
	}
	return groups
}

// Tick is the unit of start times. Every architecture has 100 clock ticks a second.
const Tick = 10 * time.Millisecond

// Age returns the time since a process with this start time was started. The result is up to one
// Tick too large. ok is false if it is unknown.
func Age(start uint64) (age time.Duration, ok bool) {
	var up unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &up)
	return time.Duration(up.Nano()) - time.Duration(start)*Tick, err == nil
}

// Zero returns the origin of start times, in ns since 1970; 0 if unknown.
func Zero() int64 {
	var real, boot unix.Timespec
	if unix.ClockGettime(unix.CLOCK_REALTIME, &real) != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil {
		return 0
	}
	return real.Nano() - boot.Nano()
}

// Dir returns the working directory of a process, or "" without permission.
func Dir(pid int) string {
	dir, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/cwd")
	if err != nil {
		return ""
	}
	return dir
}

// BootID identifies the boot of the kernel. Process IDs and start times are unique only within one
// boot.
func BootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(b))
}
