package procfs

import (
	"io/fs"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// All returns the IDs of all visible processes in any order.
func All() []int {
	all, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil
	}
	pids := make([]int, 0, len(all))
	for _, p := range all {
		pids = append(pids, int(p.Proc.P_pid))
	}
	return pids
}

// process asks the kernel about a process. The answer is empty if the process has ended.
func process(pid int) (*unix.KinfoProc, error) {
	p, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	switch {
	case err == unix.EIO, err == unix.ESRCH:
		return nil, fs.ErrNotExist
	case err != nil:
		return nil, err
	case int(p.Proc.P_pid) != pid:
		return nil, fs.ErrNotExist
	}
	return p, nil
}

// ReadStat returns the Stat of a process.
func ReadStat(pid int) (Stat, error) {
	p, err := process(pid)
	if err != nil {
		return Stat{}, err
	}
	start := p.Proc.P_starttime
	st := kernStat(p.Proc.P_comm[:], p.Proc.P_stat, p.Proc.P_flag, p.Eproc.Ppid, p.Eproc.Pgid, start.Sec, start.Usec)
	if p.Eproc.Tdev > 0 { // the session is a kernel address, so use the terminal
		st.Terminal, st.Session = uint64(p.Eproc.Tdev), int(p.Eproc.Tdev)
		st.Foreground = int(p.Eproc.Tpgid)
	}
	return st, nil
}

// Comm returns the name of a process.
func Comm(pid int) (string, error) {
	st, err := ReadStat(pid)
	return st.Comm, err
}

// Owner returns the effective user of a process.
func Owner(pid int) (uint32, bool) {
	p, err := process(pid)
	if err != nil {
		return 0, false
	}
	return p.Eproc.Ucred.Uid, true
}

// Thread returns tid itself, because macFUSE reports process IDs. Groups are unknown.
func Thread(tid int) (pid int, groups []uint32, ok bool) {
	_, err := process(tid)
	return tid, nil, err == nil
}

// KillPending reports whether a process is about to be killed. Darwin does not expose pending
// signals, so it reports whether the process has begun to exit.
func KillPending(pid int) (bool, error) {
	st, err := ReadStat(pid)
	return st.Flags&Exiting != 0, err
}

func started(pid int) (args, env []byte, err error) {
	b, err := unix.SysctlRaw("kern.procargs2", pid)
	if err != nil {
		return nil, nil, err
	}
	return kernArgs(b)
}

// Begin returns at most the first n bytes of a process's arguments, each ended by a NUL.
func Begin(pid, n int) ([]byte, error) {
	args, _, err := started(pid)
	return args[:min(n, len(args))], err
}

// Environ returns the environment that a process was started with, each variable ended by a NUL.
func Environ(pid int) ([]byte, error) {
	_, env, err := started(pid)
	return env, err
}

// Dir returns the working directory of a process, or "" without permission.
func Dir(pid int) string {
	const (
		callPidInfo   = 2 // PROC_INFO_CALL_PIDINFO
		vnodePathInfo = 9 // PROC_PIDVNODEPATHINFO
	)
	buf := make([]byte, kernDirs)
	n, _, errno := syscall.Syscall6(unix.SYS_PROC_INFO, callPidInfo, uintptr(pid), vnodePathInfo, 0, uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)))
	if errno != 0 || int(n) != len(buf) {
		return ""
	}
	return kernDir(buf)
}

// Tick is the unit of start times.
const Tick = time.Microsecond

// Age returns the time since a process with this start time was started.
func Age(start uint64) (age time.Duration, ok bool) {
	return time.Duration(time.Now().UnixMicro()-int64(start)) * Tick, true
}

// Zero returns the origin of start times, in ns since 1970. It is 1 because 0 means unknown.
func Zero() int64 { return 1 }

// BootID identifies the boot of the kernel. Process IDs are unique only within one boot.
func BootID() string {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return "unknown"
	}
	return id
}

// MemoryGroup returns nothing, because darwin has no control groups.
func MemoryGroup() (limit int64, killed uint64) { return 0, 0 }
