//go:build !portable

package fusefs

import (
	"sync"
	"time"
	"unsafe"

	"cachebro/fusefs/sys"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Directories are read without a handle: OPENDIR gets ENOSYS, so that the kernel caches
// directories. The offset in a request is the source's own cookie (d_off) of the last entry that
// the kernel used. Unlike the index of an entry, a cookie stays valid when entries are deleted.

// OpenDir answers ENOSYS; see above.
func (o *namespace) OpenDir(<-chan struct{}, *fuse.OpenIn, *fuse.OpenOut) fuse.Status {
	return fuse.ENOSYS
}

const (
	maxStreams = 32              // descriptors that stay open between two requests of a reader
	streamLife = 5 * time.Second // how long these descriptors stay open
	streamBuf  = 32 << 10
)

// stream is a directory descriptor positioned at a cookie.
type stream struct {
	fd     int
	id     uint64
	cookie int64
	end    bool
	putAt  time.Time
}

// streams holds descriptors between two requests of one reader.
type streams struct {
	mu  sync.Mutex // guards all
	all []*stream
}

// take removes and returns the stream of a node at position off, or nil.
func (s *streams) take(id uint64, off int64) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, d := range s.all {
		if d.id == id && d.cookie == off {
			s.all = append(s.all[:i], s.all[i+1:]...)
			if time.Since(d.putAt) > streamLife {
				unix.Close(d.fd)
				return nil
			}
			return d
		}
	}
	return nil
}

// put stores a stream for the next request. If there are then more than maxStreams, it closes the
// oldest.
func (s *streams) put(d *stream) {
	d.putAt = time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, d)
	for len(s.all) > maxStreams || len(s.all) > 0 && time.Since(s.all[0].putAt) > streamLife {
		unix.Close(s.all[0].fd)
		s.all = s.all[1:]
	}
}

func (s *streams) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.all {
		unix.Close(d.fd)
	}
	s.all = nil
}

// stream returns a descriptor of directory n at position off.
func (o *namespace) stream(n *inode, off int64) (*stream, error) {
	if off != 0 {
		if s := o.streams.take(n.id, off); s != nil {
			return s, nil
		}
	}
	d, err := o.dir(n)
	if err != nil {
		return nil, err
	}
	fd, err := sys.Open(d.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	d.release()
	if err != nil {
		return nil, err
	}
	if off != 0 {
		if _, err := unix.Seek(fd, off, unix.SEEK_SET); err != nil {
			unix.Close(fd)
			return nil, err
		}
	}
	return &stream{fd: fd, id: n.id, cookie: off}, nil
}

var direntBufs = sync.Pool{New: func() any { return new([streamBuf]byte) }}

// readDir calls add with each entry from in.Offset on, until add returns false because the reply is
// full.
func (o *overlay) readDir(in *fuse.ReadIn, add func(n *inode, dir int, e fuse.DirEntry) bool) fuse.Status {
	n, st := o.node(in.NodeId)
	if !st.Ok() {
		return st
	}
	s, err := o.stream(n, int64(in.Offset))
	if err != nil {
		return status(err)
	}
	hides := o.hiddenName != "" && n.LastPath() == o.hiddenDir
	buf := direntBufs.Get().(*[streamBuf]byte)
	defer direntBufs.Put(buf)
	added := false
	for !s.end {
		// Read no more bytes than the reply has room for. An entry takes more room in the reply
		// than in buf.
		l, err := sys.Dirents(s.fd, buf[:min(streamBuf, max(int(in.Size), 512))])
		if err != nil {
			unix.Close(s.fd)
			if added {
				return fuse.OK
			}
			return status(err)
		}
		if l == 0 {
			s.end = true
			break
		}
		for rest := buf[:l]; len(rest) > 0; {
			e, size := direntOf(rest)
			rest = rest[size:]
			if hides && o.hidden(n, e.Name) {
				s.cookie = int64(e.Off)
				continue
			}
			if !add(n, s.fd, e) {
				// The next request continues with this entry.
				if _, err := unix.Seek(s.fd, s.cookie, unix.SEEK_SET); err != nil {
					unix.Close(s.fd)
					return fuse.OK
				}
				o.streams.put(s)
				return fuse.OK
			}
			added = true
			s.cookie = int64(e.Off)
		}
	}
	if added {
		o.streams.put(s) // the next request only learns that there are no more entries
	} else {
		unix.Close(s.fd)
	}
	return fuse.OK
}

// The requests that read and set the flags of a file (lsattr, chattr). The requests with "X" in
// their names take a struct fsxattr, the others take a number. Before setting flags of either kind,
// the kernel reads them with FS_IOC_FSGETXATTR.
const (
	fsIocGetXFlags = 0x801c581f // FS_IOC_FSGETXATTR
	fsIocSetXFlags = 0x401c5820 // FS_IOC_FSSETXATTR
)

// Ioctl passes on requests that read or set the flags of a file. The kernel has checked that the
// caller may set them. All other requests are refused, because they would be carried out with our
// rights.
func (o *namespace) Ioctl(_ <-chan struct{}, in *fuse.IoctlIn, inbuf []byte, _ *fuse.IoctlOut, outbuf []byte) fuse.Status {
	n, st := o.node(in.NodeId)
	if !st.Ok() {
		return st
	}
	var value [28]byte
	size, set := len(value), true
	switch in.Cmd {
	case unix.FS_IOC_GETFLAGS, fsIocGetXFlags:
		set = false
	case unix.FS_IOC_SETFLAGS, fsIocSetXFlags:
	default:
		return fuse.Status(unix.ENOTTY)
	}
	if in.Cmd == unix.FS_IOC_GETFLAGS || in.Cmd == unix.FS_IOC_SETFLAGS {
		size = 4
	}
	buf := outbuf
	if set {
		buf = inbuf
	}
	if !n.isReg() && !n.isDir() || len(buf) < size {
		return fuse.Status(unix.ENOTTY)
	}
	fd, err := o.openInode(n, unix.O_RDONLY)
	if err != nil {
		return status(err)
	}
	defer unix.Close(fd)
	if set {
		copy(value[:size], inbuf)
		n.begin()
		defer n.end()
	}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(in.Cmd), uintptr(unsafe.Pointer(&value)))
	if errno == 0 && !set {
		copy(outbuf, value[:size])
	}
	return fuse.Status(errno)
}

// Tmpfile handles open(2) with O_TMPFILE, which makes a file without a name.
func (o *overlay) Tmpfile(_ <-chan struct{}, in *fuse.CreateIn, out *fuse.CreateOut) fuse.Status {
	parent, st := o.node(in.NodeId)
	if !st.Ok() {
		return st
	}
	d, err := o.dir(parent)
	if err != nil {
		return status(err)
	}
	defer d.release()
	fd := -1
	o.creations.begin()
	defer o.creations.end()
	err = o.asCaller(&in.InHeader, func() (err error) {
		flags := createFlags(in.Flags) | unix.O_TMPFILE | int(in.Flags)&unix.O_EXCL
		fd, err = sys.Open(d.fd, ".", flags, o.newMode(d, in.Mode, in.Umask))
		return err
	})
	var sx sys.Stat
	err = statNew(fd, err, &sx)
	if err != nil {
		return status(err)
	}
	k := keyOf(&sx)
	n, _ := o.table.ref(k, func(id uint64) *inode {
		return &inode{fs: o, id: id, key: k, kind: unix.S_IFREG, gone: true}
	})
	o.fillEntry(n.id, &sx, &out.EntryOut)
	o.created(n, o.caller(&in.InHeader, true), fd, in, &sx, &out.OpenOut)
	return fuse.OK
}
