// Package procfs reads what Linux tells of processes below /proc. It is a leaf:
// the overlay, the hooks, the socket's client, the daemon and the commands all ask
// it who somebody is, who its parent is and whether it still runs.
//
// The overlay asks on the path of a first write, so a file is read with as few
// system calls as there can be, and only the fields in use are parsed; libraries
// for /proc parse all of them and tell nothing of pending signals. A file of a
// process may wait for that process: [Read] of "cmdline" and "environ" waits for
// an exec or a page fault, "stat", "status" and "comm" do not.
//
// There are no locks and no state. Where there is no /proc, every function
// returns an error that is [io/fs.ErrNotExist], or nothing.
package procfs

import (
	"bytes"
	"fmt"
	"iter"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxFile bounds what is read of one file: an environment can be long.
const maxFile = 4 << 20

// Exiting is the bit of [Stat.Flags] that says a process has begun to end
// (PF_EXITING of linux/sched.h).
const Exiting = 0x4

// All returns the ids of all processes that are to be seen, in no order.
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

// Read returns the file /proc/PID/name. pid may be a thread's.
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
			return buf, nil // comes in one piece
		}
		if len(buf) == cap(buf) {
			if len(buf) >= maxFile {
				return buf, nil
			}
			buf = append(buf, 0)[:len(buf)]
		}
	}
}

// Fields goes through the lines "name: value" of a status or fdinfo file.
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

// Stat is what /proc/PID/stat says of a process or thread.
type Stat struct {
	Comm   string // the command's name, 15 bytes of it
	State  byte   // 'R', 'S', 'D' stuck in the kernel, 'Z' ended and not yet reaped, 'X' dead
	Parent int
	Group  int    // its process group: what a shell started as one job
	Flags  uint64 // the kernel's PF_ flags
	Start  uint64 // clock ticks after boot
	// Image tells one program of a process from the next: where its stack begins, which
	// exec chooses anew. 0 where that may not be seen, and once the process ends.
	Image uint64
}

// ReadStat parses /proc/PID/stat.
func ReadStat(pid int) (Stat, error) {
	b, err := Read(pid, "stat")
	if err != nil {
		return Stat{}, err
	}
	return parseStat(pid, b)
}

func parseStat(pid int, b []byte) (st Stat, err error) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')') // the name between may hold anything
	if open < 0 || end < open {
		return st, malformed(pid)
	}
	f := bytes.Fields(b[end+1:]) // from field 3, the state, on
	if len(f) < 20 {
		return st, malformed(pid)
	}
	st.Comm, st.State = string(b[open+1:end]), f[0][0]
	var err1, err2, err3, err4 error
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

// KillPending reports whether SIGKILL, to which the kernel turns every fatal
// signal, is pending for a process or thread.
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

// Args returns the arguments of a process; nil for a kernel thread and for one
// that cannot be looked at.
func Args(pid int) []string {
	b, err := Read(pid, "cmdline")
	if err != nil || len(b) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
}

// Begin returns the first bytes of the file /proc/PID/name, at most n, with one
// system call: a command line can be megabytes long.
func Begin(pid int, name string, n int) ([]byte, error) {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	buf := make([]byte, n)
	for {
		got, err := unix.Read(fd, buf)
		if err != unix.EINTR {
			return buf[:max(got, 0)], err
		}
	}
}

// Dir is the working directory of a process, "" where that may not be seen.
func Dir(pid int) string {
	dir, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/cwd")
	if err != nil {
		return ""
	}
	return dir
}

// BootID names this run of the kernel: process ids and start times mean nothing
// in another one.
func BootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(b))
}
