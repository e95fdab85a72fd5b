// Package procfs is what the system tells of processes: who somebody is, what it was
// started with, who its parent is and whether it still runs. It is a leaf: the overlay,
// the hooks, the socket's client, the daemon and the commands all ask it.
//
// There are two implementations: Linux's files below /proc (procfs_linux.go), and
// darwin's sysctl(3) and proc_info(2) (procfs_darwin.go), whose answers are taken apart
// in kern.go.
//
// The overlay asks on the path of a first write, so on Linux a file is read with as few
// system calls as there can be, and only the fields in use are parsed; libraries
// for /proc parse all of them and tell nothing of pending signals. What a process was
// started with, and its environment, lie in its memory: to ask waits for an exec or a
// page fault; for [ReadStat], [Comm] and [Thread] it does not.
//
// There are no locks and no state. What is not to be had, is an error that is
// [io/fs.ErrNotExist] for a process that is gone, or nothing.
package procfs

import (
	"strings"
)

// Exiting is the bit of [Stat.Flags] that says a process has begun to end
// (PF_EXITING of linux/sched.h).
const Exiting = 0x4

// Stat is what the system says at once of a process or thread.
type Stat struct {
	Comm   string // the command's name, 15 bytes of it
	State  byte   // 'R', 'S', 'D' stuck in the kernel, 'T' stopped, 'Z' ended and not yet reaped, 'X' dead
	Parent int
	Group  int // its process group: what a shell started as one job
	// Session is the process's session, Terminal the terminal that controls it, as the
	// kernel numbers devices, and Foreground the process group that the terminal
	// belongs to at the moment. 0 where there is no terminal.
	Session    int
	Terminal   uint64
	Foreground int
	Flags      uint64 // the kernel's PF_ flags; elsewhere than on Linux none but Exiting
	Start      uint64 // in units of Tick, after boot on Linux, after 1970 on darwin
	// Image tells one program of a process from the next: where its stack begins, which
	// exec chooses anew. 0 where that may not be seen, and once the process ends.
	Image uint64
}

// Args returns the arguments of a process; nil for a kernel thread and for one
// that cannot be looked at.
func Args(pid int) []string {
	b, err := Begin(pid, maxFile)
	if err != nil || len(b) == 0 {
		return nil
	}
	return SplitArgs(b)
}

// SplitArgs returns the arguments in what Begin read. A server that writes what it does over
// its arguments (sshd, postgres) leaves zeros up to where they ended: they are no arguments.
func SplitArgs(b []byte) []string {
	line := strings.TrimSuffix(string(b), "\x00")
	title := strings.TrimRight(line, "\x00")
	if len(line)-len(title) > 1 && !strings.Contains(title, "\x00") {
		return []string{title}
	}
	return strings.Split(line, "\x00")
}

// maxFile bounds what is read of one file: an environment can be long.
const maxFile = 4 << 20
