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
	if !isRegular(st) {
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

// holder returns the index of the newest writer that still has the file open for writing, or -1. st is
// the file's present state.
func (r *Recorder) holder(e *entry, st event.Stat) int {
	if e.closed { // every later open is a call, which adds a writer
		return -1
	}
	for i := len(e.writers) - 1; i >= 0; i-- {
		by := e.writers[i].Proc
		if by == nil {
			continue
		}
		open, looked := r.writable[by]
		if !looked || !unchanged(st, e.last) {
			open = writable(by.PID)
		}
		if r.writable != nil && !looked {
			r.writable[by] = open
		}
		if !open.has(e.path, st) {
			continue
		}
		if now, err := procfs.ReadStat(int(by.PID)); err == nil && now.Start == by.Start { // no other process has got the pid
			return i
		}
	}
	return -1
}

// openFiles holds the files that a process has open for writing.

type openFiles struct {
	paths   map[string]bool
	unnamed map[event.Inode]bool // files that have lost the name under which they were opened
}

func (o openFiles) has(path string, st event.Stat) bool {
	return o.paths[path] || o.unnamed[event.InodeOf(st)]
}

// writable returns the files that the process with this pid has open for writing.
func writable(pid uint32) openFiles {
	dir, err := unix.Open("/proc/"+strconv.Itoa(int(pid))+"/fd", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return openFiles{}
	}
	defer unix.Close(dir)
	o := openFiles{map[string]bool{}, map[event.Inode]bool{}}
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
	return o
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
	e.writers, e.closed = was.writers, was.closed
	if len(e.writers) > 0 && isRegular(is) && (!unchanged(is, e.known) || r.holder(e, is) >= 0) {
		r.await(e)
	}
}

// lostName records that a file has lost one of several names. The argument was is the file's state
// just before the call that removed the name.
func (r *Recorder) lostName(f *file, path string, was event.Stat, o *op) {
	writers := entryNow(r.entries, path).writers
	f.dropName(f.track.rel(path))
	r.relinked(f)
	if f.Path() == "" || len(writers) == 0 {
		return
	}
	other := f.track.abs(f.Path())
	is, exists := lstat(other)
	if !exists || !sameInode(is, was) {
		return
	}
	e := r.touch(spot{other, relinkedAs(was, is), true}, o.by)
	e.written(writers...)
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
