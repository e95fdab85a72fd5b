//go:build linux && (amd64 || arm64)

package memo

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"cachebro/store/leaf/notifier"
	"cachebro/store/leaf/procfs"

	"golang.org/x/sys/unix"
)

// observation holds what is known about one path. All symlinks in it are resolved.
type observation struct {
	first   stat   // stat before the first call continued
	target  string // target of a symlink
	names   string // hash of the listing when the program listed it
	read    bool
	looked  bool   // the path was read, and not only overwritten
	changed bool   // the process tree tried to change it
	own     bool   // the process tree created it, and so its whole subtree
	dated   bool   // a program may show or compare its modification time
	strict  bool   // a program may show everything in its stat except the access time
	access  bool   // a program may show its access time
	ordered bool   // the output may show the order of a listing
	by      string // the program that may show these
}

// recorder records the paths that a process tree accesses.
type recorder struct {
	places *Places
	given  map[int]unix.Stat_t // files behind the inherited descriptors that the tree may read
	hasIn  bool
	// timeless means that times and inode numbers of all programs are ignored.
	timeless bool

	mu      sync.Mutex // guards the fields below
	seen    map[string]*observation
	real    map[string]bool    // directories whose path contains no symlink
	owned   map[string]bool    // names that the process tree created and that did not exist before
	group   map[uint32]uint32  // thread → process
	runs    map[uint32]program // by process
	started map[string]uint64  // process and file that it reads when it starts → the call
	kernel  map[string]string  // what the kernel reports, see kernelSays
	why     []string           // a few reasons against a replay
}

func newRecorder(p *Places) *recorder {
	return &recorder{places: p, given: map[int]unix.Stat_t{}, seen: map[string]*observation{}, real: map[string]bool{"/": true}, owned: map[string]bool{}, group: map[uint32]uint32{}, runs: map[uint32]program{}, kernel: map[string]string{}, started: map[string]uint64{}}
}

// refuse records a reason against a replay.
func (r *recorder) refuse(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuseLocked(fmt.Sprintf(format, args...))
}

func (r *recorder) refuseLocked(text string) {
	for _, w := range r.why {
		if w == text {
			return
		}
	}
	if len(r.why) < 8 {
		r.why = append(r.why, text)
	}
}

// see is called for every reported system call before the call continues.
func (r *recorder) see(n *notifier.Notice) {
	if n.Foreign() {
		r.refuse("ran a program of another architecture, whose files cannot be seen")
		return
	}
	c, ok := notifier.Calls[uint32(n.NR)]
	if !ok {
		r.otherCall(n)
		return
	}
	switch c.Op {
	case notifier.Connect:
		r.connect(n.PID, n.Args[1], n.Args[2])
		return
	case notifier.Bind:
		r.refuse("bound a socket to a path")
		return
	case notifier.Strange:
		r.refuse("changed what paths mean (mount, chroot or a namespace)")
		return
	}
	flags := uint64(0)
	if c.Flags >= 0 {
		flags = n.Args[c.Flags]
	}
	if c.Op == notifier.Stat && flags&unix.AT_EMPTY_PATH != 0 {
		r.input(n)
		r.opened(n)
	}
	path, ok := r.path(n, c.Dir, c.Path, c.WithoutPath)
	if !ok {
		return
	}
	switch c.Op {
	case notifier.Stat:
		r.touch(n, path, flags&unix.AT_SYMLINK_NOFOLLOW == 0, asStat)
	case notifier.Lstat:
		r.touch(n, path, false, asStat)
	case notifier.Exist:
		r.touch(n, path, flags&unix.AT_SYMLINK_NOFOLLOW == 0, asThere)
	case notifier.List:
		r.touch(n, path, false, asList)
	case notifier.Readlink:
		r.touch(n, path, false, asThere)
	case notifier.Exec:
		r.exec(n, path)
	case notifier.Open, notifier.Open2:
		how, err := n.OpenFlags(c)
		if err != nil {
			r.refuse("opened %s in a way that could not be followed", path)
			return
		}
		r.open(n, path, how)
	case notifier.Change:
		r.touch(n, path, flags&unix.AT_SYMLINK_NOFOLLOW == 0, asChange)
	case notifier.Make:
		r.touch(n, path, false, asMake)
	case notifier.Remove:
		r.touch(n, path, false, asChange)
		r.forgetDirs()
	case notifier.Move, notifier.Hard:
		to, ok := r.path(n, c.Dir2, c.Path2, false)
		if c.Op == notifier.Move {
			r.touch(n, path, false, asChange)
		} else {
			r.touch(n, path, false, asThere)
		}
		if ok {
			r.touch(n, to, false, asMake)
		}
		r.forgetDirs()
	}
}

// otherCall handles calls that the filter reports because it does not know them or their arguments.
func (r *recorder) otherCall(n *notifier.Notice) {
	runs := r.runsOf(r.process(n.PID))
	switch n.NR {
	case unix.SYS_CLONE, unix.SYS_UNSHARE:
		r.refuse("made a namespace, in which paths may mean something else")
	case unix.SYS_SOCKET:
		r.refuse("made a network socket")
	case unix.SYS_UNAME:
		r.noteKernel(unameOf)
	case unix.SYS_KILL, unix.SYS_TGKILL, unix.SYS_TKILL, unix.SYS_PIDFD_OPEN:
		pid, sig := int32(n.Args[0]), int32(n.Args[1])
		switch n.NR {
		case unix.SYS_TGKILL:
			sig = int32(n.Args[2])
		case unix.SYS_PIDFD_OPEN:
			sig = -1
		}
		r.mu.Lock()
		_, ours := r.runs[uint32(max(pid, -pid))]
		r.mu.Unlock()
		if sig == 0 || pid != 0 && !ours {
			r.refuse("looked at another process, or sent it a signal")
		}
	case unix.SYS_SYSINFO:
		if runs.kind == unknownKind {
			r.refuse("asked how busy the machine is")
		}
	case unix.SYS_STATFS, unix.SYS_FSTATFS:
		if runs.kind == unknownKind && !walkers[runs.name] && !r.selinux(n) {
			r.refuse("asked how full a file system is")
		}
	case unix.SYS_FLOCK, unix.SYS_FCNTL:
		if _, given := r.given[int(int32(n.Args[0]))]; given && (n.Args[1] == unix.F_DUPFD || n.Args[1] == unix.F_DUPFD_CLOEXEC) {
			r.input(n)
			return
		}
		r.refuse("asked for a lock that others may hold")
	case unix.SYS_IOCTL:
		// Terminal requests reveal nothing if the descriptor is not a terminal.
		at, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", n.PID, int32(n.Args[0])))
		if n.Args[1]>>8 != unix.TCGETS>>8 || n.Args[1] == unix.TIOCINQ || strings.HasPrefix(at, "/dev/") && at != os.DevNull {
			r.refuse("asked a device or a file system (ioctl %#x)", n.Args[1])
		}
	case unix.SYS_SENDTO:
		r.connect(n.PID, n.Args[4], n.Args[5])
	default:
		if _, ok := inputCalls[uint32(n.NR)]; ok {
			r.input(n)
			if asksOfOpen(n) {
				r.opened(n)
			}
		} else {
			r.refuse("made system call %d, which may reveal something that is not compared", n.NR)
		}
	}
}

// noteKernel records what the kernel reports now.
func (r *recorder) noteKernel(name string) {
	what := kernelSays(name)
	r.mu.Lock()
	defer r.mu.Unlock()
	if was, ok := r.kernel[name]; ok && was != what {
		r.refuseLocked(name + " changed while it ran")
	}
	r.kernel[name] = what
}

// input handles a call with a descriptor that the command inherited.
func (r *recorder) input(n *notifier.Notice) {
	fd := int(int32(n.Args[inputCalls[uint32(n.NR)]]))
	was, ok := r.given[fd]
	var st unix.Stat_t
	if !ok || unix.Stat(fmt.Sprintf("/proc/%d/fd/%d", n.PID, fd), &st) == nil && (st.Dev != was.Dev || st.Ino != was.Ino) {
		return // the descriptor now refers to another file
	}
	// The kind of an inherited descriptor is part of the Call, but the stat of a file reveals more.
	stats := n.NR == unix.SYS_FSTAT || n.NR == unix.SYS_LSEEK || n.NR == notifier.SysFstatat || n.NR == unix.SYS_STATX
	if stats && was.Mode&unix.S_IFMT != unix.S_IFREG {
		return
	}
	if n.NR == unix.SYS_FCNTL && r.runsOf(r.process(n.PID)).kind == shellKind {
		return // the shell saves it for a redirection and restores it
	}
	if fd == 0 {
		r.refuse("read its standard input")
	} else {
		r.refuse("read descriptor %d, which it had inherited", fd)
	}
}

// selinux reports whether the call is a library's check for SELinux.
func (r *recorder) selinux(n *notifier.Notice) bool {
	path, ok := notifier.PeekString(n.PID, n.Args[0])
	return n.NR == unix.SYS_STATFS && ok && (path == "/sys/fs/selinux" || path == "/selinux")
}

// path returns the absolute path that a directory argument and a path argument denote. It returns
// false if the call has no path that matters.
func (r *recorder) path(n *notifier.Notice, dirArg, pathArg int8, withoutPath bool) (string, bool) {
	path, err := n.Path(dirArg, pathArg, withoutPath)
	if err != nil {
		r.refuse("%v", err)
	}
	return path, path != ""
}

// process returns the process of a thread.
func (r *recorder) process(tid uint32) uint32 {
	r.mu.Lock()
	pid, ok := r.group[tid]
	r.mu.Unlock()
	if ok {
		return pid
	}
	pid, parent := tid, uint32(0)
	if raw, err := procfs.Read(int(tid), "status"); err == nil {
		of := map[string]*uint32{"Tgid": &pid, "PPid": &parent}
		for name, value := range procfs.Fields(raw) {
			if n, err := strconv.ParseUint(value, 10, 32); err == nil && of[name] != nil {
				*of[name] = uint32(n)
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.group[tid] = pid
	if _, ok := r.runs[pid]; !ok {
		r.runs[pid] = r.runs[parent] // the process has not executed another program yet
	}
	return pid
}

// forgetDirs clears the set of real directories, because a changed name may now be a symlink.
func (r *recorder) forgetDirs() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.real = map[string]bool{"/": true}
}

// exec records that a program and its interpreters are read.
func (r *recorder) exec(n *notifier.Notice, path string) {
	pid := r.process(n.PID)
	before := r.runsOf(pid)
	r.setRuns(pid, program{kind: contentKind}) // the kernel reads the program and shows no times
	first := ""
	defer func() {
		if look(first).Kind == absent {
			r.setRuns(pid, before) // the program is missing in this directory of PATH
		} else {
			r.setRuns(pid, r.places.program(first))
			if name := r.runsOf(pid).name; unrepeatable[name] {
				r.refuse("ran %s, which prints something else each time", name)
			}
		}
	}()
	for range 5 {
		real := r.touch(n, path, true, asRead)
		next := interpreter(real)
		if first == "" || script(first) { // for a script, the interpreter counts
			first = real
		}
		path = next
		if path == "" {
			return
		}
	}
}

// asksOfOpen reports whether a call asks for attributes of an open file.
func asksOfOpen(n *notifier.Notice) bool {
	return slices.Contains([]int32{unix.SYS_FSTAT, unix.SYS_FGETXATTR, unix.SYS_FLISTXATTR}, n.NR) || n.NR == unix.SYS_LSEEK && n.Args[2] > unix.SEEK_END
}

// opened handles a call for the attributes of an open file, which any process may have opened.
func (r *recorder) opened(n *notifier.Notice) {
	pid := r.process(n.PID)
	if r.runsOf(pid).kind == contentKind {
		return
	}
	fd := fmt.Sprintf("/proc/%d/fd/%d", n.PID, int32(n.Args[0]))
	at, err := os.Readlink(fd)
	if err != nil || !strings.HasPrefix(at, "/") || r.loads(n, pid, at) {
		return
	}
	if look(at).Kind != absent { // the process tree created the removed file, or its removal was noticed
		r.note(n, at, asStat)
	}
}

// loads reports whether the dynamic linker is checking if a library that it has just opened is
// already loaded. It does so once per process and shows none of the attributes.
func (r *recorder) loads(n *notifier.Notice, pid uint32, path string) bool {
	name := filepath.Base(path)
	if r.places.classify(path) != known || name != "ld.so.cache" && !strings.HasSuffix(name, ".so") && !strings.Contains(name, ".so.") {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	key := fmt.Sprintf("%d %s", pid, path)
	before, ok := r.started[key]
	r.started[key] = n.ID
	return !ok || before == n.ID
}

func (r *recorder) runsOf(pid uint32) program {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.runs[pid]
}

func (r *recorder) setRuns(pid uint32, p program) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs[pid] = p
}

// script reports whether a program begins with "#!".
func script(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var head [2]byte
	_, _ = f.Read(head[:])
	return string(head[:]) == "#!"
}
