//go:build portable || darwin

package fusefs

import (
	"os"

	"cachebro/fusefs/sys"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// No thread takes on the identity of somebody else here: the source is changed by the
// user who mounted, and by root as that user.

// creds are those of this process.
type creds struct {
	uid  uint32
	root bool
}

func ownCreds() creds {
	uid := uint32(os.Geteuid())
	return creds{uid: uid, root: uid == 0}
}

// as calls f, which makes something on the source. What it makes belongs to the user who
// mounted, so other users, except root, get EACCES.
func (o *contents) as(in *fuse.InHeader, f func() error) error {
	if in.Uid != o.us.uid && in.Uid != 0 {
		return unix.EACCES
	}
	return f()
}

// noReserves has nothing to give up.
func noReserves() {}

// forCaller calls f, which takes blocks of the source.
func (o *namespace) forCaller(_ *fuse.InHeader, _ bool, f func() error) error { return f() }

// likeCaller calls f, which changes the inode at. Set-id bits are cleared as for the user
// who mounted; the notification makes the kernel show the new mode.
func (o *namespace) likeCaller(n *inode, at sys.Ref, _ *fuse.InHeader, _ bool, f func() error) error {
	var sx sys.Stat
	if sys.StatRef(at, &sx) != nil || sx.Mode&(unix.S_ISUID|unix.S_ISGID) == 0 {
		return f()
	}
	err := f()
	o.notifier.attrs(n.id)
	return err
}
