//go:build portable || darwin

package fusefs

import (
	"os"

	"cachebro/fusefs/sys"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Here no thread takes on another user's identity. All changes of the source are made as the user
// who mounted, also those of root.

// creds are the credentials of this process.
type creds struct {
	uid  uint32
	root bool
}

func ownCreds() creds {
	uid := uint32(os.Geteuid())
	return creds{uid: uid, root: uid == 0}
}

// as calls f, which makes a file on the source. The file belongs to the user who mounted, so users
// other than that one and root get EACCES.
func (o *contents) as(in *fuse.InHeader, f func() error) error {
	if in.Uid != o.us.uid && in.Uid != 0 {
		return unix.EACCES
	}
	return f()
}

func noReserves() {}

func (o *namespace) forCaller(_ *fuse.InHeader, _ bool, f func() error) error { return f() }

// likeCaller calls f, which changes the inode at. Set-id bits are cleared as for the user who
// mounted, and the notification makes the kernel show the new mode.
func (o *namespace) likeCaller(n *inode, at sys.Ref, _ *fuse.InHeader, _ bool, f func() error) error {
	var sx sys.Stat
	if sys.StatRef(at, &sx) != nil || sx.Mode&(unix.S_ISUID|unix.S_ISGID) == 0 {
		return f()
	}
	err := f()
	o.notifier.attrs(n.id)
	return err
}
