//go:build portable || darwin

package fusefs

import (
	"sync"

	"cachebro/fusefs/sys"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// POSIX defines no position in a directory whose descriptor was closed, and Darwin requires a
// handle in any case. So a directory is read completely when a reader begins, and the offset in a
// request is an index into those entries.

// streams are the directories that are open, by handle.
type streams struct {
	mu   sync.Mutex // guards last, open
	last uint64
	open map[uint64]*reading
}

// reading holds the entries of a directory at the time when a process began to read it.
type reading struct {
	mu    sync.Mutex // guards the fields below
	begun bool
	all   []fuse.DirEntry
	fd    int // of the directory; -1 before begin
}

func (r *reading) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fd >= 0 {
		unix.Close(r.fd)
		r.fd = -1
	}
}

func (s *streams) get(fh uint64) *reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[fh]
}

func (s *streams) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.open {
		r.close()
	}
	s.open = nil
}

// OpenDir makes a handle. It does not read the directory yet, because many processes open a
// directory only as their working directory.
func (o *namespace) OpenDir(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	if _, st := o.node(in.NodeId); !st.Ok() {
		return st
	}
	s := &o.streams
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[uint64]*reading{}
	}
	s.last++
	s.open[s.last] = &reading{fd: -1}
	out.Fh = s.last
	return fuse.OK
}

// ReleaseDir ends a handle.
func (o *namespace) ReleaseDir(in *fuse.ReleaseIn) {
	s := &o.streams
	s.mu.Lock()
	r := s.open[in.Fh]
	delete(s.open, in.Fh)
	s.mu.Unlock()
	if r != nil {
		r.close()
	}
}

// begin reads directory n anew.
func (r *reading) begin(o *overlay, n *inode) error {
	d, err := o.dir(n)
	if err != nil {
		return err
	}
	fd, err := sys.Open(d.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	d.release()
	if err != nil {
		return err
	}
	if r.fd >= 0 {
		unix.Close(r.fd)
	}
	r.fd, r.all, r.begun = fd, nil, true
	r.all, err = allEntries(func(buf []byte) (int, error) { return sys.Dirents(fd, buf) })
	return err
}

const (
	firstRead = 32 << 10
	mostRead  = 16 << 20
)

// allEntries reads a directory to its end, doubling the buffer with each read. On Darwin, each read
// goes through all earlier entries again (x/sys imitates getdirentries(2) with readdir(3)), so
// reads of equal size would take quadratic time.
func allEntries(read func(buf []byte) (int, error)) (all []fuse.DirEntry, err error) {
	for buf := make([]byte, firstRead); ; buf = make([]byte, min(2*len(buf), mostRead)) {
		l, err := read(buf)
		if err != nil || l == 0 {
			return all, err
		}
		for rest := buf[:l]; len(rest) > 0; {
			e, size := direntOf(rest)
			rest = rest[size:]
			all = append(all, e)
		}
	}
}

// readDir calls add with each entry from in.Offset on, until add returns false because the reply is
// full.
func (o *overlay) readDir(in *fuse.ReadIn, add func(n *inode, dir int, e fuse.DirEntry) bool) fuse.Status {
	n, st := o.node(in.NodeId)
	if !st.Ok() {
		return st
	}
	r := o.streams.get(in.Fh)
	if r == nil {
		return fuse.EBADF
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if in.Offset == 0 || !r.begun {
		if err := r.begin(o, n); err != nil {
			return status(err)
		}
	}
	hides := o.hiddenName != "" && n.LastPath() == o.hiddenDir
	for at := in.Offset; at < uint64(len(r.all)); at++ {
		e := r.all[at]
		if hides && o.hidden(n, e.Name) {
			continue
		}
		e.Off = at + 1
		if !add(n, r.fd, e) {
			break
		}
	}
	return fuse.OK
}
