//go:build !portable

package fusefs

import (
	"fmt"
	"os"
	"strconv"
	"unsafe"

	"cachebro/fusefs/sys"
	"cachebro/store/leaf/procfs"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

type creds struct {
	uid, gid uint32
	groups   []uint32
	root     bool // may take on other users' identities
}

func ownCreds() creds {
	c := creds{uid: uint32(os.Geteuid()), gid: uint32(os.Getegid())}
	c.root = c.uid == 0
	gs, _ := os.Getgroups()
	for _, g := range gs {
		c.groups = append(c.groups, uint32(g))
	}
	return c
}

// asCaller calls f, which makes a file in the source. f runs with the file system identity of the
// caller, so that the file belongs to the caller from the beginning. Only the identity of this
// thread changes; the device loop has locked its goroutine to the thread.
//
// The server of an ordinary user cannot do this. Files that it made for other users (allow_other),
// even set-user-id programs, would belong to the server's user. So every user except that user and
// root gets EACCES.
func (o *contents) asCaller(in *fuse.InHeader, f func() error) error {
	if !o.us.root && in.Uid != o.us.uid && in.Uid != 0 {
		return unix.EACCES
	}
	if !o.us.root || in.Uid == o.us.uid && in.Gid == o.us.gid {
		return f()
	}
	setThreadGroups(o.procs.groups(in.Pid))
	setThreadFS(unix.SYS_SETFSGID, in.Gid)
	setThreadFS(unix.SYS_SETFSUID, in.Uid)
	err := f()
	setThreadFS(unix.SYS_SETFSUID, o.us.uid)
	setThreadFS(unix.SYS_SETFSGID, o.us.gid)
	setThreadGroups(o.us.groups)
	return err
}

// groups returns the supplementary groups of a thread.
func (p *processes) groups(tid uint32) []uint32 { return p.thread(tid, trustWrite).groups }

// capSysResource of capabilities(7) lets a process exceed quotas and use blocks reserved for root.
const capSysResource = 24

// noReserves permanently removes CAP_SYS_RESOURCE from the effective capabilities of the calling
// thread.
func noReserves() {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if unix.Capget(&head, &caps[0]) == nil {
		caps[0].Effective &^= 1 << capSysResource
		_ = unix.Capset(&head, &caps[0])
	}
}

// forCaller calls f, which allocates blocks in the source. It prevents a caller other than root
// from using the blocks reserved for root. f runs without root's rights on files, except CAP_FSETID
// if keeps is true; see likeCaller.
func (o *namespace) forCaller(in *fuse.InHeader, keeps bool, f func() error) error {
	if !o.us.root || in.Uid == o.us.uid {
		return f()
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	keeps = keeps && unix.Capget(&head, &caps[0]) == nil && caps[0].Effective&(1<<capFSETID) != 0
	setThreadFS(unix.SYS_SETFSUID, in.Uid)
	if keeps {
		less := caps
		less[0].Effective = caps[0].Effective&^fileRights | 1<<capFSETID
		_ = unix.Capset(&head, &less[0])
	}
	err := f()
	setThreadFS(unix.SYS_SETFSUID, o.us.uid)
	return err
}

// fileRights are the capabilities that the kernel drops and restores with root's file system
// identity.
const fileRights = 1<<0 | 1<<1 | 1<<2 | 1<<3 | 1<<4 | 1<<9 | 1<<27

// The following functions change only the calling thread, unlike those of package syscall.

func setThreadFS(call uintptr, id uint32) {
	_, _, _ = unix.RawSyscall(call, uintptr(id), 0, 0)
}

func setThreadGroups(gs []uint32) {
	var p unsafe.Pointer
	if len(gs) > 0 {
		p = unsafe.Pointer(&gs[0])
	}
	_, _, _ = unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(gs)), uintptr(p), 0)
}

// capFSETID is CAP_FSETID of capabilities(7). When a process with this capability changes a file,
// the file keeps its set-id bits.
const capFSETID = 4

// likeCaller calls f, which changes the inode n. It makes the source clear set-id bits as if the
// caller had made the change. A server that runs as root has CAP_FSETID, so its own changes would
// not clear them.
//
// The rules depend on the groups of the process and on who may execute the file, and differ between
// kernels. So our thread gives up CAP_FSETID and takes the caller's groups during f, and leaves the
// decision to the file system of the source. If unprivileged is set, the kernel has reported that
// the caller lacks CAP_FSETID. Otherwise likeCaller examines the process.
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
	// Drop the cached attributes, or stat(2) would return the old mode. Keep the cached pages: the
	// write in progress may have locked one of them.
	o.notifier.attrs(n.id)
	return err
}

// setIDRights returns the caller's groups, and whether set-id bits survive the caller's changes. A
// process in another user namespace can have CAP_FSETID only for that namespace, so the bits do not
// survive its changes.
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

// dropFSETID removes CAP_FSETID from the calling thread, and restore adds it again. The device loop
// has locked its goroutine to that thread.
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
