package sourcewatch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// names are the events that every mark watches.
	names = unix.FAN_CREATE | unix.FAN_DELETE | unix.FAN_ATTRIB | unix.FAN_CLOSE_WRITE | unix.FAN_ONDIR
	// inMount are the events that WatchMount's mark adds.
	inMount = unix.FAN_OPEN | unix.FAN_MODIFY | unix.FAN_CLOSE_WRITE | unix.FAN_ONDIR

	// maxDirs limits the marks if each directory needs one. A mark keeps the directory's inode in
	// memory, which takes about 1 KiB.
	maxDirs = 50_000
	// elsewherePause is how long the watch waits after events that were all outside the tree. One
	// wake-up costs more than many events.
	elsewherePause = 5 * time.Millisecond
	// maxKnown limits the cached paths of directories.
	maxKnown = 20_000
)

var errLost = errors.New("the kernel's queue of events overflowed")

// Watch watches one tree.
type Watch struct {
	fd   int // the fanotify group
	root *os.File
	tell func([]Event)
	lost func(error)
	self int
	// wholeFS means that one mark covers the file system. Otherwise each directory has its own
	// mark.
	wholeFS bool
	moves   uint64 // the events that report renames: FAN_RENAME, or FAN_MOVE on older kernels
	// run polls ending, the read end of a pipe; Close closes stop, its write end.
	ending, stop *os.File
	done         chan struct{}

	// mu is held while events are read and reported, so that they are reported in order. It guards
	// the fields below.
	mu   sync.Mutex
	buf  []byte
	base string // the root's path according to the kernel
	// dirs maps file handles to the paths of directories, and to noDir for directories outside the
	// tree. If wholeFS is false, it holds exactly the marked directories.
	dirs map[string]string
}

// noDir replaces the path of a directory outside the tree.
const noDir = "\x00"

// Start begins to watch the tree of root. It calls tell with the events caused by other processes,
// in order and from one goroutine at a time. It calls lost when events are missing; then anything
// may have changed. Both may be called until Close returns, and must not call methods of the Watch.
// Everything that happens after Start has returned is reported.
func Start(root *os.File, tell func([]Event), lost func(error)) (*Watch, error) {
	fd, err := unix.FanotifyInit(unix.FAN_CLASS_NOTIF|unix.FAN_CLOEXEC|unix.FAN_NONBLOCK|unix.FAN_REPORT_DFID_NAME, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_LARGEFILE)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", root.Name(), err)
	}
	ending, stop, err := os.Pipe()
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("watch %s: %w", root.Name(), err)
	}
	w := &Watch{fd: fd, ending: ending, stop: stop, root: root, tell: tell, lost: lost, self: os.Getpid(), moves: unix.FAN_RENAME, buf: make([]byte, 64<<10), dirs: map[string]string{}, done: make(chan struct{})}
	err = w.mark()
	if err != nil {
		w.release()
		return nil, fmt.Errorf("watch %s: %w", root.Name(), err)
	}
	go w.run()
	return w, nil
}

// mark sets one mark on the file system or, if that is not permitted, one on each directory.
func (w *Watch) mark() error {
	w.base = pathOf(int(w.root.Fd()))
	if w.base == "" {
		return ErrUnsupported
	}
	_, h, err := w.handle("")
	if err != nil {
		return err
	}
	w.wholeFS = w.open(h) == w.base
	if w.wholeFS {
		err = w.markFilesystem()
		if !errors.Is(err, unix.EPERM) {
			return err
		}
		w.wholeFS = false
	}
	return w.markBelow("", nil)
}

func (w *Watch) markFilesystem() error {
	err := w.set(unix.FAN_MARK_ADD|unix.FAN_MARK_FILESYSTEM, names|w.moves, int(w.root.Fd()), ".")
	if errors.Is(err, unix.EINVAL) && w.moves == unix.FAN_RENAME {
		w.moves = unix.FAN_MOVE
		err = w.set(unix.FAN_MARK_ADD|unix.FAN_MARK_FILESYSTEM, names|w.moves, int(w.root.Fd()), ".")
	}
	return err
}

func (w *Watch) set(flags uint, mask uint64, dir int, name string) error {
	return unix.FanotifyMark(w.fd, flags, mask, dir, name)
}

// markBelow marks a directory and all directories in its subtree. found, if not nil, is called for
// every entry, because the kernel does not report entries that are older than the mark.
func (w *Watch) markBelow(dir string, found func(p string, isDir bool)) error {
	key, _, err := w.handle(dir)
	if gone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(w.dirs) >= maxDirs {
		return fmt.Errorf("more than %d directories", maxDirs)
	}
	fd, err := w.openDir(dir)
	if gone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), dir)
	defer f.Close()
	flags, mask := uint(unix.FAN_MARK_ADD|unix.FAN_MARK_ONLYDIR), names|w.moves|unix.FAN_MODIFY|unix.FAN_EVENT_ON_CHILD
	err = w.set(flags, mask, fd, ".")
	if errors.Is(err, unix.EINVAL) && w.moves == unix.FAN_RENAME {
		w.moves = unix.FAN_MOVE
		err = w.set(flags, names|w.moves|unix.FAN_MODIFY|unix.FAN_EVENT_ON_CHILD, fd, ".")
	}
	if err != nil {
		return err
	}
	w.dirs[key] = dir
	entries, err := f.ReadDir(-1)
	if err != nil && !gone(err) {
		return err
	}
	for _, e := range entries {
		p := path.Join(dir, e.Name())
		if found != nil {
			found(p, e.IsDir())
		}
		if e.IsDir() {
			err := w.markBelow(p, found)
			if err != nil && !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EXDEV) {
				return err
			}
		}
	}
	return nil
}

func gone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}

func (w *Watch) openDir(dir string) (int, error) {
	how := &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC | unix.O_NOFOLLOW | unix.O_NONBLOCK, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV}
	for {
		fd, err := unix.Openat2(int(w.root.Fd()), path.Join(".", dir), how)
		if err != unix.EAGAIN && err != unix.EINTR {
			return fd, err
		}
	}
}

// handle returns the file handle by which the kernel's events refer to a directory.
func (w *Watch) handle(dir string) (key string, h unix.FileHandle, err error) {
	h, _, err = unix.NameToHandleAt(int(w.root.Fd()), path.Join(".", dir), 0)
	if err != nil {
		return "", h, err
	}
	return keyOf(h.Type(), h.Bytes()), h, nil
}

func keyOf(kind int32, handle []byte) string {
	return string(binary.NativeEndian.AppendUint32(nil, uint32(kind))) + string(handle)
}

// open returns the path of the directory that has the handle h, or "" if it does not exist or may
// not be opened.
func (w *Watch) open(h unix.FileHandle) string {
	fd, err := unix.OpenByHandleAt(int(w.root.Fd()), h, unix.O_PATH|unix.O_CLOEXEC|unix.O_DIRECTORY)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	return pathOf(fd)
}

// pathOf returns the path of a descriptor's file, or "" if the file was removed.
func pathOf(fd int) string {
	p, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil || !strings.HasPrefix(p, "/") || strings.HasSuffix(p, " (deleted)") {
		return ""
	}
	return p
}

// WatchMount makes the Watch also report files that are opened or modified through the mount at
// point. It fails if the Watch may not mark a whole file system.
func (w *Watch) WatchMount(point string) error {
	if !w.wholeFS {
		return ErrUnsupported
	}
	return w.set(unix.FAN_MARK_ADD|unix.FAN_MARK_MOUNT, inMount, unix.AT_FDCWD, point)
}

// WatchWriting sets whether each modification is reported, or only the close after it. With it,
// each write to the file system takes some microseconds longer. Marks on single directories report
// modifications in any case.
func (w *Watch) WatchWriting(on bool) error {
	if !w.wholeFS {
		return nil
	}
	flags := uint(unix.FAN_MARK_FILESYSTEM | unix.FAN_MARK_REMOVE)
	if on {
		flags = unix.FAN_MARK_FILESYSTEM | unix.FAN_MARK_ADD
	}
	return w.set(flags, unix.FAN_MODIFY, int(w.root.Fd()), ".")
}

// Close ends the watch.
func (w *Watch) Close() {
	w.stop.Close()
	<-w.done
	w.release()
}

func (w *Watch) release() {
	w.stop.Close()
	w.ending.Close()
	unix.Close(w.fd)
}

// run reads events until Close. It calls poll(2) itself, because Go's poller would wake a thread
// for each event, even while run is not waiting.
func (w *Watch) run() {
	defer close(w.done)
	ps := []unix.PollFd{{Fd: int32(w.fd), Events: unix.POLLIN}, {Fd: int32(w.ending.Fd())}}
	for {
		_, err := unix.Poll(ps, -1)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil || ps[1].Revents != 0:
			return
		}
		if !w.take() {
			time.Sleep(elsewherePause)
		}
	}
}

// Drain returns when everything that happened before the call has been reported.
func (w *Watch) Drain() { w.take() }

// take reads and reports the available events. ours reports whether at least one of them was in the
// tree.
func (w *Watch) take() (ours bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		n, err := unix.Read(w.fd, w.buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return ours
		}
		if events := w.parse(w.buf[:n]); len(events) > 0 {
			ours = true
			w.tell(events)
		}
	}
}

// parse decodes a sequence of structs fanotify_event_metadata, each followed by the names of its
// event.
func (w *Watch) parse(b []byte) (events []Event) {
	const head = 24
	for len(b) >= head {
		size := int(binary.NativeEndian.Uint32(b))
		if size < head || size > len(b) {
			break
		}
		mask := binary.NativeEndian.Uint64(b[8:])
		pid := int(int32(binary.NativeEndian.Uint32(b[20:])))
		info := b[head:size]
		b = b[size:]
		if mask&unix.FAN_Q_OVERFLOW != 0 {
			w.forget()
			w.lost(errLost)
			continue
		}
		dir := mask&unix.FAN_ONDIR != 0
		at, from, to := w.infos(info)
		e := Event{Op: opOf(mask), PID: pid, Path: at, Dir: dir}
		if mask&unix.FAN_RENAME != 0 {
			e = moveEvent(from, to, pid, dir)
		}
		if dir && mask&(unix.FAN_RENAME|unix.FAN_MOVE) != 0 {
			w.noteMove(e)
		}
		if e.Path == noDir || e.Op == 0 {
			continue
		}
		if pid != w.self {
			events = append(events, e)
		}
		if dir && !w.wholeFS {
			events = w.follow(e, events)
		}
	}
	return events
}

// opOf translates a mask. Kernels without FAN_RENAME report the two names of a rename separately.
func opOf(mask uint64) (op Op) {
	for _, m := range [...]struct {
		bits uint64
		op   Op
	}{
		{unix.FAN_OPEN, Opened}, {unix.FAN_MODIFY, Changed}, {unix.FAN_CLOSE_WRITE, Closed},
		{unix.FAN_CREATE | unix.FAN_MOVED_TO, Came}, {unix.FAN_DELETE | unix.FAN_MOVED_FROM, Went}, {unix.FAN_MOVE, Moved}, {unix.FAN_ATTRIB, Attributes},
	} {
		if mask&m.bits != 0 {
			op |= m.op
		}
	}
	return op
}

func moveEvent(from, to string, pid int, dir bool) Event {
	switch {
	case from == noDir:
		return Event{Op: Came | Moved, PID: pid, Path: to, Dir: dir}
	case to == noDir:
		return Event{Op: Went | Moved, PID: pid, Path: from, Dir: dir}
	}
	return Event{Op: Moved, PID: pid, Path: to, From: from, Dir: dir}
}

// infos decodes the names of an event. The result at is the path of the event, and from and to are
// the paths of a rename. Each is noDir if it is outside the tree or not reported.
func (w *Watch) infos(b []byte) (at, from, to string) {
	at, from, to = noDir, noDir, noDir
	const head = 4 + 8 + 8 // header, fsid, size and type of the handle
	for len(b) >= head {
		size := int(binary.NativeEndian.Uint16(b[2:]))
		if size < head || size > len(b) {
			break
		}
		kind, bytes := b[0], int(binary.NativeEndian.Uint32(b[12:]))
		handleType := int32(binary.NativeEndian.Uint32(b[16:]))
		rest := b[head:size]
		b = b[size:]
		if bytes > len(rest) {
			break
		}
		name, _, _ := strings.Cut(string(rest[bytes:]), "\x00")
		p := w.dir(handleType, rest[:bytes])
		if p != noDir {
			p = path.Join(p, name) // an event for a directory itself has the name "."
			if p == "." {
				p = ""
			}
		}
		switch kind {
		case unix.FAN_EVENT_INFO_TYPE_DFID_NAME, unix.FAN_EVENT_INFO_TYPE_DFID:
			at = p
		case unix.FAN_EVENT_INFO_TYPE_OLD_DFID_NAME:
			from = p
		case unix.FAN_EVENT_INFO_TYPE_NEW_DFID_NAME:
			to = p
		}
	}
	return at, from, to
}

// dir returns the path of the directory that has a handle, or noDir if it is outside the tree.
func (w *Watch) dir(kind int32, handle []byte) string {
	key := keyOf(kind, handle)
	p, ok := w.dirs[key]
	if ok {
		return p
	}
	if !w.wholeFS {
		return noDir
	}
	p = noDir
	full := w.open(unix.NewFileHandle(kind, handle))
	if full == w.base {
		p = ""
	} else if below, ok := strings.CutPrefix(full, strings.TrimSuffix(w.base, "/")+"/"); ok {
		p = below
	}
	if full == "" {
		return noDir // the directory was removed; an event of its parent reports that
	}
	if len(w.dirs) >= maxKnown {
		clear(w.dirs)
	}
	w.dirs[key] = p
	return p
}

func (w *Watch) forget() {
	if w.wholeFS {
		clear(w.dirs)
		w.base = pathOf(int(w.root.Fd()))
	}
}

// noteMove updates the cached paths after a directory's rename.
func (w *Watch) noteMove(e Event) {
	if w.wholeFS {
		w.forget()
		return
	}
	if e.Op != Moved {
		return
	}
	below := e.From + "/"
	for key, p := range w.dirs {
		if p == e.From {
			w.dirs[key] = e.Path
		} else if rest, ok := strings.CutPrefix(p, below); ok {
			w.dirs[key] = e.Path + "/" + rest
		}
	}
}

// follow sets and drops marks after directories appeared or disappeared. It adds events for the
// entries of a new directory, because the kernel does not report entries that were made before the
// mark was set.
func (w *Watch) follow(e Event, events []Event) []Event {
	if e.Op&Went != 0 {
		for key, p := range w.dirs {
			if p == e.Path || strings.HasPrefix(p, e.Path+"/") {
				delete(w.dirs, key)
			}
		}
	}
	if e.Op&Came == 0 {
		return events
	}
	err := w.markBelow(e.Path, func(p string, isDir bool) {
		if e.PID != w.self {
			events = append(events, Event{Op: Came | Closed, PID: e.PID, Path: p, Dir: isDir})
		}
	})
	if err != nil {
		w.lost(err)
	}
	return events
}
