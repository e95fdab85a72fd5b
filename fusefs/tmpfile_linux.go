//go:build !portable

package fusefs

import (
	"cachebro/fusefs/sys"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

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
	o.makes.begin()
	defer o.makes.end()
	err = o.as(&in.InHeader, func() (err error) {
		flags := createFlags(in.Flags) | unix.O_TMPFILE | int(in.Flags)&unix.O_EXCL
		fd, err = sys.Open(d.fd, ".", flags, o.newMode(d, in.Mode, in.Umask))
		return err
	})
	var sx sys.Stat
	if err == nil {
		err = sys.StatFD(fd, &sx)
	}
	if err != nil {
		if fd >= 0 {
			unix.Close(fd)
		}
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
