//go:build linux || darwin

package fusefs

import (
	"sync/atomic"
	"time"

	"cachebro/fusefs/sys"

	"golang.org/x/sys/unix"
)

func keyOf(s *sys.Stat) key { return key{dev: s.Dev, ino: s.Ino, birth: s.Birth} }

// dir returns a descriptor (sys.Place) of the directory n, which the caller releases. If none is
// open, dir opens n by name relative to its parent, whose descriptor it gets in the same way. So no
// path becomes too long for the system.
func (o *namespace) dir(n *inode) (*dirfd, error) {
	if !n.isDir() {
		return nil, unix.ENOTDIR
	}
	for m := o.moves.start(); ; {
		if d := n.dirfd.Load(); d != nil && d.acquire() {
			return d, nil
		}
		d, err := o.dirByName(n)
		if err != unix.ESTALE || !o.moves.retry(&m) {
			return d, err
		}
	}
}

func (o *namespace) dirByName(n *inode) (*dirfd, error) {
	var buf [2]link
	for _, l := range n.links(buf[:]) {
		p, err := o.dir(l.parent)
		if err != nil {
			return nil, err
		}
		fd, err := sys.Open(p.fd, l.name, sys.Place|unix.O_DIRECTORY, 0)
		p.release()
		if err != nil {
			if gone(err) {
				continue
			}
			return nil, err
		}
		var sx sys.Stat
		err = sys.StatFD(fd, &sx)
		if err == nil && keyOf(&sx) != n.key {
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

// gone reports whether err means that a name no longer leads to its file. Another name may lead to
// it.
func gone(err error) bool {
	return err == unix.ENOENT || err == unix.ENOTDIR || err == unix.ELOOP || err == unix.ESTALE
}

// openFor opens n with a caller's flags. An append-only file (chattr +a) needs O_APPEND, which
// keepFlags drops.
func (o *namespace) openFor(n *inode, flags uint32, sx *sys.Stat) (int, error) {
	fd, _, err := o.openStat(n, int(flags)&keepFlags, sx)
	if err == unix.EPERM && flags&unix.O_APPEND != 0 {
		fd, _, err = o.openStat(n, int(flags)&keepFlags|unix.O_APPEND, sx)
	}
	return fd, err
}

// openInode opens n on the source by one of its names that still leads to n, or else through a
// handle. It returns ESTALE if n cannot be found.
func (o *namespace) openInode(n *inode, flags int) (int, error) {
	fd, _, err := o.openStat(n, flags, nil)
	return fd, err
}

// openStat is like openInode, and also fills in sx if it is not nil. again reports whether n was
// opened through a handle.
func (o *namespace) openStat(n *inode, flags int, sx *sys.Stat) (fd int, again bool, err error) {
	for m := o.moves.start(); ; {
		fd, again, err = o.openByName(n, flags, sx)
		if err != unix.ESTALE || !o.moves.retry(&m) {
			return fd, again, err
		}
	}
}

func (o *namespace) openByName(n *inode, flags int, sx *sys.Stat) (int, bool, error) {
	var own sys.Stat
	if sx == nil {
		sx = &own
	}
	// O_NONBLOCK prevents the open from waiting if the name now leads to a FIFO.
	if flags&sys.Place == 0 {
		flags |= unix.O_NONBLOCK | unix.O_NOCTTY
	}
	if n.id == rootID {
		fd, err := sys.Open(o.root.fd, ".", flags, 0)
		if err == nil {
			err = sys.StatFD(fd, sx)
		}
		return fd, false, err
	}
	var buf [2]link
	// Truncate after checking which file was opened, so that no other file loses its content.
	trunc := flags&unix.O_TRUNC != 0
	for _, l := range n.links(buf[:]) {
		p, err := o.dir(l.parent)
		if err != nil {
			continue
		}
		fd, err := sys.Open(p.fd, l.name, flags&^unix.O_TRUNC, 0)
		p.release()
		if err != nil {
			if gone(err) {
				continue
			}
			return -1, false, err
		}
		err = sys.StatFD(fd, sx)
		if err == nil && keyOf(sx) != n.key {
			err = unix.ESTALE
		}
		if err == nil && trunc {
			err = unix.Ftruncate(fd, 0)
			if err == nil {
				err = sys.StatFD(fd, sx)
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
	fd, err := n.openAgain(flags)
	if err == nil {
		err = sys.StatFD(fd, sx)
	}
	return fd, true, err
}

// openAgain opens n through the first handle that allows it.
func (n *inode) openAgain(flags int) (fd int, err error) {
	var buf [4]*handle
	all := buf[:0]
	n.mu.Lock()
	for h := n.handles; h != nil; h = h.next {
		if h.acquire() {
			all = append(all, h)
		}
	}
	n.mu.Unlock()
	fd, err = -1, unix.ESTALE
	for _, h := range all {
		if err == unix.ESTALE {
			fd, err = sys.OpenAgain(h.fd, flags)
		}
		h.release()
	}
	return fd, err
}

func (o *namespace) statInode(n *inode, sx *sys.Stat) error {
	// An open directory need not be looked up by name. This case is frequent, because the kernel
	// asks for a directory's attributes after each change of its entries.
	if d := n.dirfd.Load(); d != nil && !o.outside.Load() && d.acquire() {
		defer d.release()
		return sys.StatFD(d.fd, sx)
	}
	for m := o.moves.start(); ; {
		err := o.statByName(n, sx)
		if err != unix.ESTALE || !o.moves.retry(&m) {
			return err
		}
	}
}

func (o *namespace) statByName(n *inode, sx *sys.Stat) error {
	if n.id == rootID {
		return sys.StatFD(o.root.fd, sx)
	}
	for l := range n.eachLink() {
		p, err := o.dir(l.parent)
		if err != nil {
			continue
		}
		err = sys.StatAt(p.fd, l.name, sx)
		p.release()
		if err == nil && keyOf(sx) == n.key {
			return nil
		}
		if err != nil && !gone(err) {
			return err
		}
	}
	// n was removed while it was open. The kernel's request contains no handle in this case, so use
	// any handle of n.
	if h := n.anyHandle(false); h != nil {
		defer h.release()
		return sys.StatFD(h.fd, sx)
	}
	if d := n.dirfd.Load(); d != nil && d.acquire() {
		defer d.release()
		return sys.StatFD(d.fd, sx)
	}
	return unix.ESTALE
}

// withInode calls f with a reference to n, which may be a descriptor opened with sys.Place.
func (o *namespace) withInode(n *inode, f func(at sys.Ref) error) error {
	if n.isDir() {
		d, err := o.dir(n)
		if err != nil {
			return err
		}
		defer d.release()
		return f(sys.FD(d.fd))
	}
	if !sys.Points {
		if err := o.withName(n, f); err != unix.ESTALE {
			return err
		}
	}
	if h := n.anyHandle(false); h != nil {
		defer h.release()
		return f(sys.FD(h.fd))
	}
	fd, err := o.openInode(n, sys.Place)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return f(sys.FD(fd))
}

// withName calls f with a name that leads to n now, or returns ESTALE. While f runs, another
// process may give the name to another file in the source.
func (o *namespace) withName(n *inode, f func(at sys.Ref) error) error {
	for m := o.moves.start(); ; {
		var buf [2]link
		for _, l := range n.links(buf[:]) {
			d, err := o.dir(l.parent)
			if err != nil {
				continue
			}
			var sx sys.Stat
			err = sys.StatAt(d.fd, l.name, &sx)
			if err == nil && keyOf(&sx) == n.key {
				err = f(sys.At(d.fd, l.name))
				d.release()
				return err
			}
			d.release()
		}
		if !o.moves.retry(&m) {
			return unix.ESTALE
		}
	}
}

// moves counts renames. An inode that was not found while a rename was running is looked up again
// by its new name.
type moves struct {
	running, done atomic.Int64
	// unsettledUntil is when renames that an earlier server began can no longer take effect.
	unsettledUntil atomic.Pointer[time.Time]
}

// moveMark is the state of moves when a lookup started. retry uses it.
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

func (m *moves) unsettled() bool {
	u := m.unsettledUntil.Load()
	return u != nil && time.Now().Before(*u)
}

// retry waits a little, and reports whether another attempt may succeed.
func (m *moves) retry(k *moveMark) bool {
	if k.tries++; k.tries > 100 || m.running.Load() == 0 && m.done.Load() == k.done && !m.unsettled() {
		return false
	}
	k.done = m.done.Load()
	if m.running.Load() > 0 || m.unsettled() {
		time.Sleep(100 * time.Microsecond)
	}
	return true
}
