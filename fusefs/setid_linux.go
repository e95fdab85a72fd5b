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

// capFSETID is CAP_FSETID of capabilities(7). Changes by a process that has it do not clear a
// file's set-id bits.
const capFSETID = 4

// likeCaller calls f, which changes the inode at, so that the source clears set-id bits as for the
// caller. A server that runs as root has CAP_FSETID, so its changes would not clear them.
//
// The rules depend on the groups of the process and on who may execute the file, and differ between
// kernels. So during f our thread gives up CAP_FSETID and takes the caller's groups, and the source
// decides. unprivileged means that, according to the kernel, the caller lacks CAP_FSETID. Otherwise
// likeCaller examines the process.
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
	// The kernel must not answer stat(2) with the old mode. Its pages are not dropped, because this
	// very write may have locked one.
	o.notifier.attrs(n.id)
	return err
}

// setIDRights returns the caller's groups, and whether it may keep set-id bits. A process in
// another user namespace has that right only there.
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

// dropFSETID removes CAP_FSETID from the calling thread; restore adds it again. The device loop has
// locked its goroutine to that thread.
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
