package fusefs

import (
	"strconv"
	"sync/atomic"
	"time"

	"cachebro/fusefs/kernelfs"
	"cachebro/store/event"

	"golang.org/x/sys/unix"
)

const (
	statxMask  = unix.STATX_BASIC_STATS | unix.STATX_BTIME
	resolveHow = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS
)

// openBeneath opens one name in a directory and follows nothing. EAGAIN means that a
// rename was going on; it says nothing about this name.
//
// A mount on the name is passed through, except for the kernel's own file systems:
// EACCES. Opening a file of /proc or /sys can have an effect, and it would happen
// with our rights and in our name.
func openBeneath(dir int, name string, flags int, mode uint32) (int, error) {
	how := unix.OpenHow{
		Flags:   uint64(flags | unix.O_CLOEXEC | unix.O_NOFOLLOW),
		Resolve: resolveHow | unix.RESOLVE_NO_XDEV,
	}
	if flags&(unix.O_CREAT|unix.O_TMPFILE&^unix.O_DIRECTORY) != 0 {
		how.Mode = uint64(mode & 0o7777)
	}
	for try := 0; ; try++ {
		fd, err := unix.Openat2(dir, name, &how)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN && try < 100:
		case err == unix.EXDEV && how.Resolve&unix.RESOLVE_NO_XDEV != 0:
			if kernelfs.On(dir, name) {
				return -1, unix.EACCES
			}
			how.Resolve &^= unix.RESOLVE_NO_XDEV
		case err == unix.ELOOP && flags&unix.O_PATH == 0:
			// A symlink is where the kernel knows a file: changed underneath.
			return -1, unix.ESTALE
		case err == unix.ENOSYS:
			return unix.Openat(dir, name, flags|unix.O_CLOEXEC|unix.O_NOFOLLOW, mode)
		default:
			return fd, err
		}
	}
}

func statAt(dir int, name string, sx *unix.Statx_t) error {
	for {
		err := unix.Statx(dir, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, statxMask, sx)
		if err != unix.EINTR {
			return err
		}
	}
}

func statFD(fd int, sx *unix.Statx_t) error {
	for {
		err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, statxMask, sx)
		if err != unix.EINTR {
			return err
		}
	}
}

func keyOf(sx *unix.Statx_t) key {
	k := key{dev: unix.Mkdev(sx.Dev_major, sx.Dev_minor), ino: sx.Ino}
	if sx.Mask&unix.STATX_BTIME != 0 {
		k.birth = nanos(sx.Btime)
	}
	return k
}

func nanos(t unix.StatxTimestamp) int64 { return t.Sec*int64(time.Second) + int64(t.Nsec) }

func toStat(sx *unix.Statx_t) event.Stat {
	k := keyOf(sx)
	return event.Stat{
		Dev: k.dev, Ino: k.ino, Birth: k.birth,
		Mode: uint32(sx.Mode), Nlink: sx.Nlink, UID: sx.Uid, GID: sx.Gid,
		Size:  int64(sx.Size),
		Mtime: nanos(sx.Mtime), Ctime: nanos(sx.Ctime),
	}
}

// dir returns an O_PATH descriptor of the directory n; the caller releases it.
// On a miss it is opened by name in its parent, whose descriptor is found the
// same way, so that no path grows longer than the system allows.
func (o *overlay) dir(n *inode) (*dirfd, error) {
	if !n.isDir() {
		return nil, unix.ENOTDIR
	}
	for m := o.moves.start(); ; {
		if d := n.dirfd.Load(); d != nil && d.acquire() {
			return d, nil
		}
		d, err := o.dirByName(n)
		if err != unix.ESTALE || !o.moves.again(&m) {
			return d, err
		}
	}
}

func (o *overlay) dirByName(n *inode) (*dirfd, error) {
	var buf [2]link
	for _, l := range n.links(buf[:]) {
		p, err := o.dir(l.parent)
		if err != nil {
			return nil, err
		}
		fd, err := openBeneath(p.fd, l.name, unix.O_PATH|unix.O_DIRECTORY, 0)
		p.release()
		if err != nil {
			if gone(err) {
				continue
			}
			return nil, err
		}
		var sx unix.Statx_t
		if err = statFD(fd, &sx); err == nil && keyOf(&sx) != n.key {
			err = unix.ESTALE
		}
		if err != nil {
			unix.Close(fd)
			continue
		}
		return o.dirs.put(n, fd), nil
	}
	return nil, unix.ESTALE
}

// gone reports whether an error says that a name no longer leads to what it
// was, so that another name is worth a try.
func gone(err error) bool {
	return err == unix.ENOENT || err == unix.ENOTDIR || err == unix.ELOOP || err == unix.ESTALE
}

// openInode opens n on the source side through any of its names, makes sure
// that it is n, and returns a descriptor. Without a name it is opened again
// through a handle. ESTALE: it is not to be found.
func (o *overlay) openInode(n *inode, flags int) (int, error) {
	fd, _, err := o.openStat(n, flags, nil)
	return fd, err
}

// openStat is openInode that also fills sx, if not nil. again: it was opened
// through a handle.
func (o *overlay) openStat(n *inode, flags int, sx *unix.Statx_t) (fd int, again bool, err error) {
	for m := o.moves.start(); ; {
		fd, again, err = o.openByName(n, flags, sx)
		if err != unix.ESTALE || !o.moves.again(&m) {
			return fd, again, err
		}
	}
}

func (o *overlay) openByName(n *inode, flags int, sx *unix.Statx_t) (int, bool, error) {
	var own unix.Statx_t
	if sx == nil {
		sx = &own
	}
	// O_NONBLOCK: should a FIFO stand there by now, it must not stop us.
	if flags&unix.O_PATH == 0 {
		flags |= unix.O_NONBLOCK | unix.O_NOCTTY
	}
	if n.id == rootID {
		fd, err := openBeneath(o.root.fd, ".", flags, 0)
		if err == nil {
			err = statFD(fd, sx)
		}
		return fd, false, err
	}
	var buf [2]link
	// A truncation must not hit another file: it is done after the check.
	trunc := flags&unix.O_TRUNC != 0
	for _, l := range n.links(buf[:]) {
		p, err := o.dir(l.parent)
		if err != nil {
			continue
		}
		fd, err := openBeneath(p.fd, l.name, flags&^unix.O_TRUNC, 0)
		p.release()
		if err != nil {
			if gone(err) {
				continue
			}
			return -1, false, err
		}
		if err = statFD(fd, sx); err == nil && keyOf(sx) != n.key {
			err = unix.ESTALE
		}
		if err == nil && trunc {
			err = unix.Ftruncate(fd, 0)
			if err == nil {
				err = statFD(fd, sx)
			}
		}
		if err == nil {
			return fd, false, nil
		}
		unix.Close(fd)
		if !gone(err) {
			return -1, false, err
		}
	}
	h := n.anyHandle(false)
	if h == nil {
		return -1, false, unix.ESTALE
	}
	defer h.release()
	fd, err := unix.Open(procFD(h.fd), flags|unix.O_CLOEXEC, 0)
	if err == nil {
		err = statFD(fd, sx)
	}
	return fd, true, err
}

// procFD is a path that leads to what a descriptor of ours is open on.
func procFD(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// statInode asks the source for the attributes of n.
func (o *overlay) statInode(n *inode, sx *unix.Statx_t) error {
	// A directory that we have at hand need not be looked for. The kernel asks
	// after each change of its entries, to check permissions.
	if d := n.dirfd.Load(); d != nil && !o.outside.Load() && d.acquire() {
		defer d.release()
		return statFD(d.fd, sx)
	}
	for m := o.moves.start(); ; {
		err := o.statByName(n, sx)
		if err != unix.ESTALE || !o.moves.again(&m) {
			return err
		}
	}
}

func (o *overlay) statByName(n *inode, sx *unix.Statx_t) error {
	if n.id == rootID {
		return statFD(o.root.fd, sx)
	}
	var buf [2]link
	for _, l := range n.links(buf[:]) {
		p, err := o.dir(l.parent)
		if err != nil {
			continue
		}
		err = statAt(p.fd, l.name, sx)
		p.release()
		if err == nil && keyOf(sx) == n.key {
			return nil
		}
		if err != nil && !gone(err) {
			return err
		}
	}
	// Removed while open: the kernel asks without naming a handle.
	if h := n.anyHandle(false); h != nil {
		defer h.release()
		return statFD(h.fd, sx)
	}
	if d := n.dirfd.Load(); d != nil && d.acquire() {
		defer d.release()
		return statFD(d.fd, sx)
	}
	return unix.ESTALE
}

// withInode calls f with a descriptor of n; it may be an O_PATH one.
func (o *overlay) withInode(n *inode, f func(fd int) error) error {
	if n.isDir() {
		d, err := o.dir(n)
		if err != nil {
			return err
		}
		defer d.release()
		return f(d.fd)
	}
	if h := n.anyHandle(false); h != nil {
		defer h.release()
		return f(h.fd)
	}
	fd, err := o.openInode(n, unix.O_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return f(fd)
}

// moves counts renames, so that a name that led nowhere while one went on is
// looked up again under the new name.
type moves struct {
	running, done atomic.Int64
	// until: ns; renames that an earlier server had begun are on their way.
	until atomic.Pointer[time.Time]
}

type moveMark struct {
	done  int64
	tries int
}

func (m *moves) begin() { m.running.Add(1) }

func (m *moves) end() {
	m.done.Add(1)
	m.running.Add(-1)
}

func (m *moves) start() moveMark { return moveMark{done: m.done.Load()} }

func (m *moves) awaited() bool {
	u := m.until.Load()
	return u != nil && time.Now().Before(*u)
}

// again reports whether another try makes sense, after a short wait.
func (m *moves) again(k *moveMark) bool {
	if k.tries++; k.tries > 100 || m.running.Load() == 0 && m.done.Load() == k.done && !m.awaited() {
		return false
	}
	k.done = m.done.Load()
	if m.running.Load() > 0 || m.awaited() {
		time.Sleep(100 * time.Microsecond)
	}
	return true
}
