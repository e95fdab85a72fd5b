//go:build !portable

package fusefs

import (
	"fmt"
	"os"
	"strconv"

	"cachebro/fusefs/sys"
	"cachebro/store/leaf/procfs"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// capFSETID of capabilities(7) lets a process keep the set-user-id and
// set-group-id bits of what it changes.
const capFSETID = 4

// likeCaller calls f, which changes the inode that at leads to, so that the source
// removes set-id bits as it would for the caller. A server of root has the right to keep
// them, and there are many rules: they depend on the groups of the process and on who may
// execute the file, and they differ between kernels. So our thread gives up the right for
// the moment and takes on the caller's groups, and the source decides. unprivileged: the
// kernel says that the caller does not have the right; otherwise the process is examined.
func (o *namespace) likeCaller(n *inode, at sys.Ref, in *fuse.InHeader, unprivileged bool, f func() error) error {
	var sx sys.Stat
	if sys.StatRef(at, &sx) != nil || sx.Mode&(unix.S_ISUID|unix.S_ISGID) == 0 {
		return f()
	}
	var err error
	groups, keeps := []uint32(nil), false
	if o.us.root {
		groups, keeps = setIDRights(in)
	}
	if !o.us.root || keeps && !unprivileged {
		err = f()
	} else {
		setThreadGroups(groups)
		setThreadFS(unix.SYS_SETFSGID, in.Gid)
		restore := dropFSETID()
		err = f()
		restore()
		setThreadFS(unix.SYS_SETFSGID, o.us.gid)
		setThreadGroups(o.us.groups)
	}
	// Otherwise the kernel would still show the old mode to whoever asks only for
	// attributes. Pages stay: one may be locked for this very write.
	o.notifier.attrs(n.id)
	return err
}

// setIDRights returns the caller's groups, and whether it may keep set-id bits. A process
// in another user namespace has that right only within its namespace.
func setIDRights(in *fuse.InHeader) (groups []uint32, keeps bool) {
	b, err := procfs.Read(int(in.Pid), "status")
	if err != nil {
		return nil, in.Uid == 0
	}
	var caps uint64
	for name, value := range procfs.Fields(b) {
		switch name {
		case "Groups":
			groups = procfs.Groups(value)
		case "CapEff":
			caps, _ = strconv.ParseUint(value, 16, 64)
		}
	}
	if caps>>capFSETID&1 == 0 {
		return groups, false
	}
	ours, err1 := os.Readlink("/proc/self/ns/user")
	theirs, err2 := os.Readlink(fmt.Sprintf("/proc/%d/ns/user", in.Pid))
	return groups, err1 == nil && err2 == nil && ours == theirs
}

// dropFSETID takes the right from the calling thread, which the device loop has
// locked; restore gives it back.
func dropFSETID() (restore func()) {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if unix.Capget(&head, &caps[0]) != nil {
		return func() {}
	}
	less := caps
	less[0].Effective &^= 1 << capFSETID
	_ = unix.Capset(&head, &less[0])
	return func() { _ = unix.Capset(&head, &caps[0]) }
}
