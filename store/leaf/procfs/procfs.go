// Package procfs reports what the system knows about processes: their owner, command line and
// parent, and whether they are still running.
//
// There are two implementations. procfs_linux.go reads the files in /proc. procfs_darwin.go
// uses sysctl(3) and proc_info(2), whose answers are parsed in kern.go.
//
// The overlay uses this package during the first write to a file, which must not wait long. So on
// Linux a file is read with as few system calls as possible, and only the fields in use are parsed.
// Libraries for /proc parse all fields, and do not report pending signals. The arguments and the
// environment are in the process's memory, so reading them may wait for an exec or a page fault.
// [ReadStat], [Comm] and [Thread] never wait.
//
// The package has no locks and no state. A value that cannot be read is left empty, or an error is
// returned. The error is [io/fs.ErrNotExist] for a process that has ended.
package procfs

import (
	"strings"
)

// Exiting is the bit of [Stat.Flags] for a process that has begun to exit (PF_EXITING of
// linux/sched.h).
const Exiting = 0x4

// KernelThread is the bit of [Stat.Flags] for a thread of the kernel, which has no program
// (PF_KTHREAD).
const KernelThread = 0x200000

// Stat is what the system reports about a process or thread in one answer.
type Stat struct {
	Comm   string // the command's name, at most 15 bytes
	State  byte   // 'R' running, 'S' sleeping, 'D' stuck in the kernel, 'T' stopped, 'Z' zombie, 'X' dead
	Parent int
	Group  int // process group; a shell runs each job in one
	// Session is the process's session, Terminal its controlling terminal as a device number, and
	// Foreground the terminal's foreground process group. They are 0 without a terminal.
	Session    int
	Terminal   uint64
	Foreground int
	Flags      uint64 // the kernel's PF_ flags; only Exiting on systems other than Linux
	Start      uint64 // in units of Tick, since boot on Linux, since 1970 on darwin
	// Image distinguishes the programs that a process executes one after the other. It is the
	// address of the stack's beginning, which each exec chooses anew. It is 0 without permission
	// and when the process exits.
	Image uint64
}

// Args returns the arguments of a process. It returns nil for a kernel thread and without
// permission.
func Args(pid int) []string {
	b, err := Begin(pid, maxFile)
	if err != nil || len(b) == 0 {
		return nil
	}
	return SplitArgs(b)
}

// SplitArgs splits the arguments that Begin has read. A server that writes its status over its
// arguments (sshd, postgres) leaves NULs after the status. SplitArgs drops them.
func SplitArgs(b []byte) []string {
	line := strings.TrimSuffix(string(b), "\x00")
	title := strings.TrimRight(line, "\x00")
	if len(line)-len(title) > 1 && !strings.Contains(title, "\x00") {
		return []string{title}
	}
	return strings.Split(line, "\x00")
}

// maxFile limits the bytes read from one file, because an environment can be long.
const maxFile = 4 << 20
