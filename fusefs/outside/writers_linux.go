//go:build linux && (amd64 || arm64)

package outside

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"cachebro/fusefs"
	"cachebro/fusefs/sys"
	"cachebro/store/leaf/event"
	"cachebro/store/leaf/procfs"

	"golang.org/x/sys/unix"
)

// opens records that an entry's file is about to be opened for writing.
func (r *Recorder) opens(e *entry) {
	e.written(e.by)
	r.calling[e.by.TID] = e
}

// written adds processes that opened the file for writing. It drops processes that have ended.
func (e *entry) written(by ...fusefs.Caller) {
	e.writers = keep(e.writers, func(w fusefs.Caller) bool {
		again := slices.ContainsFunc(by, func(c fusefs.Caller) bool { return c.Proc == w.Proc })
		return !again && alive(w.PID)
	})
	e.writers, e.closed = append(e.writers, by...), false
}

// writer returns the process that last opened the file for writing. If there is none, it returns
// the process that made the last call.
func (e *entry) writer() fusefs.Caller {
	if n := len(e.writers); n > 0 {
		return e.writers[n-1]
	}
	return e.by
}

// recordWritten records the content of a file that is open for writing, perhaps under another name,
// and is about to get a name. Later writes then count as separate changes. recordWritten returns false
// if no result of a write is awaited. st is the file's state.
func (r *Recorder) recordWritten(e *entry, st event.Stat) bool {
	if !st.IsRegular() {
		return false
	}
	for _, of := range append(r.byOtherNames(e.file, e.path), e) {
		if of.waits && len(of.writers) > 0 {
			r.altered(of, st, false)
			return true
		}
	}
	return false
}

// holder returns the index of the newest writer that still has the file open for writing, or -1. If
// only other processes of a tree still have the file open, because they inherited or received the
// writer's descriptor, holder returns the index of the newest writer. st is the file's present state.
func (r *Recorder) holder(e *entry, st event.Stat) int {
	if e.closed || len(e.writers) == 0 || !st.IsRegular() { // every later open is a call, which adds a writer
		return -1
	}
	err := leased(e.path)
	if err == nil {
		return -1
	}
	old := unchanged(st, e.last)
	for i := len(e.writers) - 1; i >= 0; i-- {
		by := e.writers[i].Proc
		if by == nil || !r.opened.by(by, old).has(e.path, st) {
			continue
		}
		if now, err := procfs.ReadStat(int(by.PID)); err == nil && now.Start == by.Start { // no other process has got the pid
			return i
		}
	}
	if err != unix.EAGAIN {
		return -1
	}
	inTrees := r.opened.by(nil, old)
	if inTrees.mapped[e.path] || inTrees.has(e.path, st) {
		return len(e.writers) - 1
	}
	return -1
}

// leased takes a read lease on a file and drops it again. The kernel refuses the lease with EAGAIN
// if any process has the file open or mapped for writing, and with other errors if the file belongs
// to another user or cannot have leases. A process that opens the file at the same moment waits until
// the lease is dropped.
func leased(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK)
	return err
}

// opened finds out which files processes have open for writing. The Recorder's mu guards it.
type opened struct {
	filters int                           // number of this process's seccomp filters
	cache   map[*fusefs.Process]openFiles // during settleAll, the answers so far; otherwise nil
}

// by returns the files that a process has open for writing. If p is nil, it returns the files that
// any process of a tree has open or mapped for writing. A cached answer is used if old is set.
func (o *opened) by(p *fusefs.Process, old bool) openFiles {
	files, cached := o.cache[p]
	if cached && old {
		return files
	}
	files = openFiles{map[string]bool{}, map[string]bool{}, map[event.Inode]bool{}}
	if p != nil {
		files.addOpen(p.PID)
	} else {
		for _, pid := range procfs.All() {
			if filters(pid) > o.filters {
				files.addOpen(uint32(pid))
				files.addMapped(pid)
			}
		}
	}
	if o.cache != nil && !cached {
		o.cache[p] = files
	}
	return files
}

// filters returns the number of a process's seccomp filters. Each process of a tree has more of them
// than a recorder.
func filters(pid int) int {
	status, err := procfs.Read(pid, "status")
	if err != nil {
		return 0
	}
	for name, value := range procfs.Fields(status) {
		if name == "Seccomp_filters" {
			n, _ := strconv.Atoi(value)
			return n
		}
	}
	return 0
}

// openFiles holds the files that processes have open for writing.
type openFiles struct {
	paths   map[string]bool
	mapped  map[string]bool
	unnamed map[event.Inode]bool // files that have lost the name under which they were opened
}

func (o openFiles) has(path string, st event.Stat) bool {
	return o.paths[path] || o.unnamed[event.InodeOf(st)]
}

// addMapped adds the files that a process has mapped, shared and writable.
func (o openFiles) addMapped(pid int) {
	maps, err := procfs.Read(pid, "maps")
	if err != nil {
		return
	}
	for line := range strings.Lines(string(maps)) {
		_, mode, _ := strings.Cut(line, " ")
		at := strings.IndexByte(line, '/')
		if at > 0 && (strings.HasPrefix(mode, "rw-s") || strings.HasPrefix(mode, "-w-s")) {
			o.mapped[strings.TrimSuffix(line[at:], "\n")] = true
		}
	}
}

// addOpen adds the files that the process with this pid has open for writing.
func (o openFiles) addOpen(pid uint32) {
	dir, err := unix.Open("/proc/"+strconv.Itoa(int(pid))+"/fd", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(dir)
	buf := make([]byte, 4<<10)
	for {
		n, err := sys.Dirents(dir, buf)
		if err != nil || n == 0 {
			break
		}
		for b := buf[:n]; len(b) > 0; {
			d, size := sys.ParseDirent(b)
			b = b[size:]
			if d.Name[0] != '.' {
				o.add(dir, d.Name)
			}
		}
	}
}

// add adds the file of a descriptor if the descriptor can write and the file has or had a path. dir
// is the directory of the process's descriptors.
func (o openFiles) add(dir int, name string) {
	var st unix.Stat_t // the link of a descriptor that can write has write permission
	if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Mode&unix.S_IWUSR == 0 {
		return
	}
	var buf [unix.PathMax]byte
	n, err := unix.Readlinkat(dir, name, buf[:])
	if err != nil || n == 0 || buf[0] != '/' { // a pipe or socket has no path
		return
	}
	to := string(buf[:n])
	o.paths[to] = true
	if !strings.HasSuffix(to, unlinked) {
		return
	}
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	var sx sys.Stat
	if sys.StatFD(fd, &sx) == nil {
		o.unnamed[event.InodeOf(sx.Stat)] = true
	}
}

// stillHeld makes e await writes through descriptors that were opened under a name that the file
// has since lost. was is the entry of that name, and is the file's present state.
func (r *Recorder) stillHeld(e *entry, was entry, is event.Stat) {
	e.writers, e.closed, e.held = was.writers, was.closed, was.held
	if len(e.writers) > 0 && is.IsRegular() && (!unchanged(is, e.known) || r.holder(e, is) >= 0) {
		r.await(e)
	}
}

// lostName records that a file has lost one of several names. The argument was is the file's state
// just before the call that removed the name.
func (r *Recorder) lostName(f *file, path string, was event.Stat, o *op) {
	lost := entryNow(r.entries, path)
	f.dropName(f.track.rel(path))
	r.relinked(f)
	if f.Path() == "" || len(lost.writers) == 0 {
		return
	}
	other := f.track.abs(f.Path())
	is, exists := lstat(other)
	if !exists || !sameInode(is, was) {
		return
	}
	e := r.touch(spot{other, relinkedAs(was, is), true}, o.by)
	e.written(lost.writers...)
	e.held = e.held || lost.held
	r.stillHeld(e, *e, is)
}

// entryNow returns a copy of the entry of a path, or an empty entry if there is none.
func entryNow(entries map[string]*entry, path string) entry {
	if e := entries[path]; e != nil {
		return *e
	}
	return entry{}
}

// isOpening reports whether a thread may be opening the file. Unlike inCall, it considers all threads.
func isOpening(calling map[uint32]*entry, e *entry) bool {
	for _, called := range calling {
		if called == e {
			return true
		}
	}
	return false
}

// inCall reports whether the last call on an entry may still be in progress. A thread that has made
// another call has finished it.
func (r *Recorder) inCall(e *entry) bool {
	return r.calling[e.by.TID] == e && time.Since(e.when) < callFor && alive(e.by.TID)
}
