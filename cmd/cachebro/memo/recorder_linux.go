//go:build linux && (amd64 || arm64)

package memo

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// observation is what is known of one path, symlinks in it resolved.
type observation struct {
	first   stat      // before the first call went on
	taken   time.Time // when
	target  string    // of a symlink
	names   string    // hash of the listing, taken when it was asked for
	read    bool
	looked  bool // anything but blindly written
	changed bool // the tree asked for a change
	own     bool // the tree made it; what lies below is its own too
	strict  bool // a program that shows or compares times looked at it
	stated  []uint32
	readers []uint32 // processes
}

// recorder collects what a process tree looks at.
type recorder struct {
	places *Places
	stdin  unix.Stat_t // what descriptor 0 is, to tell it from another one
	hasIn  bool

	mu      sync.Mutex // guards the fields below
	seen    map[string]*observation
	real    map[string]bool   // directories that are no symlinks, the ones above neither
	owned   map[string]bool   // names that the tree made where there was none
	group   map[uint32]uint32 // thread → process
	timely  map[uint32]bool   // processes that show or compare times
	listens bool
	why     []string // why it cannot be replayed, at most a few
}

func newRecorder(p *Places) *recorder {
	return &recorder{places: p, seen: map[string]*observation{}, real: map[string]bool{"/": true}, owned: map[string]bool{}, group: map[uint32]uint32{}, timely: map[uint32]bool{}}
}

// refuse notes a reason against a replay.
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

// timeUsers are programs whose output or work depends on times of files that
// they also list or read.
var timeUsers = map[string]bool{"ls": true, "stat": true, "find": true, "fd": true, "fdfind": true, "tar": true, "rsync": true, "zip": true, "cpio": true,
	"make": true, "gmake": true, "ninja": true, "cp": true, "du": true, "exa": true, "eza": true, "tree": true, "test": true, "[": true}

// see is called for every system call that is shown, before it goes on.
func (r *recorder) see(n *notice) {
	if n.arch != auditArch || foreignFrom > 0 && uint32(n.nr) >= foreignFrom {
		r.refuse("ran a program of another architecture, whose files cannot be seen")
		return
	}
	c, ok := calls[uint32(n.nr)]
	if !ok {
		r.other(n)
		return
	}
	switch c.op {
	case opConnect:
		r.connect(n.pid, n.args[1], n.args[2])
		return
	case opListen:
		r.mu.Lock()
		r.listens = true
		r.mu.Unlock()
		return
	case opStrange:
		r.refuse("changed what paths mean (mount, chroot or a namespace)")
		return
	}
	path, ok := r.path(n, c.dir, c.path, c.withoutPath)
	if !ok {
		return
	}
	flags := uint64(0)
	if c.flags >= 0 {
		flags = n.args[c.flags]
	}
	switch c.op {
	case opStat:
		r.touch(n, path, flags&unix.AT_SYMLINK_NOFOLLOW == 0, asStat)
	case opLstat:
		r.touch(n, path, false, asStat)
	case opExist:
		r.touch(n, path, flags&unix.AT_SYMLINK_NOFOLLOW == 0, asThere)
	case opList:
		r.touch(n, path, false, asList)
	case opLink:
		r.touch(n, path, false, asThere)
	case opExec:
		r.exec(n, path)
	case opOpen2:
		var how [8]byte
		if !peek(n.pid, n.args[2], how[:]) {
			r.refuse("opened %s in a way that could not be seen", path)
			return
		}
		r.open(n, path, leUint64(how[:]))
	case opOpen:
		if c.flags < 0 { // creat
			flags = unix.O_CREAT | unix.O_WRONLY | unix.O_TRUNC
		}
		r.open(n, path, flags)
	case opChange:
		r.touch(n, path, flags&unix.AT_SYMLINK_NOFOLLOW == 0, asChange)
	case opMake:
		r.touch(n, path, false, asMake)
	case opRemove:
		r.touch(n, path, false, asChange)
		r.forgetDirs()
	case opMove, opHard:
		to, ok := r.path(n, c.dir2, c.path2, false)
		if c.op == opMove {
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

// other are calls that the filter shows for their arguments.
func (r *recorder) other(n *notice) {
	switch n.nr {
	case unix.SYS_READ, unix.SYS_READV:
		var st unix.Stat_t
		if unix.Stat(fmt.Sprintf("/proc/%d/fd/0", n.pid), &st) == nil && (st.Dev != r.stdin.Dev || st.Ino != r.stdin.Ino) {
			return // something else by now
		}
		r.refuse("read its standard input")
	case unix.SYS_SENDTO:
		r.connect(n.pid, n.args[4], n.args[5])
	case unix.SYS_CLONE, unix.SYS_UNSHARE:
		r.refuse("made a namespace, in which paths may mean something else")
	default:
		r.refuse("used a system call that is not understood (%d)", n.nr)
	}
}

func leUint64(b []byte) (v uint64) {
	for i := 7; i >= 0; i-- {
		v = v<<8 | uint64(b[i])
	}
	return v
}

// peek reads memory of a process that waits for us.
func peek(pid uint32, addr uint64, buf []byte) bool {
	local := []unix.Iovec{{Base: &buf[0]}}
	local[0].SetLen(len(buf))
	n, err := unix.ProcessVMReadv(int(pid), local, []unix.RemoteIovec{{Base: uintptr(addr), Len: len(buf)}}, 0)
	return err == nil && n == len(buf)
}

// peekString reads up to a NUL, page by page.
func peekString(pid uint32, addr uint64) (string, bool) {
	var out []byte
	for len(out) <= unix.PathMax {
		buf := make([]byte, min(256, 4096-addr%4096))
		if !peek(pid, addr, buf) {
			return "", false
		}
		if i := bytes.IndexByte(buf, 0); i >= 0 {
			return string(append(out, buf[:i]...)), true
		}
		out = append(out, buf...)
		addr += uint64(len(buf))
	}
	return "", false
}

// path is the absolute path that two arguments name; false: none that matters.
func (r *recorder) path(n *notice, dirArg, pathArg int8, withoutPath bool) (string, bool) {
	name := ""
	if pathArg >= 0 && n.args[pathArg] != 0 {
		var ok bool
		if name, ok = peekString(n.pid, n.args[pathArg]); !ok {
			r.refuse("named a file in a way that could not be seen")
			return "", false
		}
	} else if !withoutPath {
		return "", false // EFAULT
	}
	if strings.HasPrefix(name, "/") {
		return name, true
	}
	base := fmt.Sprintf("/proc/%d/cwd", n.pid)
	if dirArg >= 0 && int32(n.args[dirArg]) != unix.AT_FDCWD {
		if name == "" && !withoutPath {
			return "", false // AT_EMPTY_PATH: an open descriptor's own attributes
		}
		base = fmt.Sprintf("/proc/%d/fd/%d", n.pid, int32(n.args[dirArg]))
	} else if name == "" {
		return "", false // ENOENT
	}
	at, err := os.Readlink(base)
	if err != nil || !strings.HasPrefix(at, "/") {
		return "", false // a pipe, a socket: not a path
	}
	if strings.HasSuffix(at, " (deleted)") && look(at).Kind == absent {
		return "", false
	}
	if name == "" {
		return at, true
	}
	return at + "/" + name, true
}

// process is whose thread it is.
func (r *recorder) process(tid uint32) uint32 {
	r.mu.Lock()
	pid, ok := r.group[tid]
	r.mu.Unlock()
	if ok {
		return pid
	}
	pid = tid
	if raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid)); err == nil {
		for line := range strings.Lines(string(raw)) {
			if v, ok := strings.CutPrefix(line, "Tgid:"); ok {
				if n, err := strconv.ParseUint(strings.TrimSpace(v), 10, 32); err == nil {
					pid = uint32(n)
				}
			}
		}
	}
	comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.group[tid] = pid
	if _, ok := r.timely[pid]; !ok {
		r.timely[pid] = timeUsers[strings.TrimSpace(string(comm))]
	}
	return pid
}

// forgetDirs: a name has changed, and with it what lies behind symlinks.
func (r *recorder) forgetDirs() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.real = map[string]bool{"/": true}
}

// exec reads a program and what it is run by.
func (r *recorder) exec(n *notice, path string) {
	pid := r.process(n.pid)
	r.mu.Lock()
	r.timely[pid] = timeUsers[filepath.Base(path)]
	r.group[n.pid] = pid
	r.mu.Unlock()
	for range 5 {
		real := r.touch(n, path, true, asRead)
		if path = interpreter(real); path == "" {
			return
		}
	}
}
