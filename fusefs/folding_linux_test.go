package fusefs

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"cachebro/fusefs/sys"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// folding is a FUSE file system over a directory. It ignores case and normalises names, although
// the directory below it does not. Tests use it because few kernels can mount a real volume that
// ignores case. folding preserves the spelling with which a name was made, and lets the kernel
// cache nothing.
type folding struct {
	fuse.RawFileSystem
	mu    sync.Mutex        // guards paths
	paths map[uint64]string // by node id, which is the inode number; one of the paths if a file has several
}

// find returns the path of a name in a directory, and whether there is such an entry.
func (v *folding) find(dir uint64, name string) (string, bool) {
	v.mu.Lock()
	at := v.paths[dir]
	v.mu.Unlock()
	all, _ := os.ReadDir(at)
	for _, e := range all {
		if sys.SameName(e.Name(), name) {
			return filepath.Join(at, e.Name()), true
		}
	}
	return filepath.Join(at, name), false
}

func (v *folding) path(id uint64) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.paths[id]
}

func (v *folding) attr(path string, a *fuse.Attr) fuse.Status {
	var st syscall.Stat_t
	if err := syscall.Lstat(path, &st); err != nil {
		return fuse.ToStatus(err)
	}
	a.FromStat(&st)
	return fuse.OK
}

func (v *folding) entry(path string, out *fuse.EntryOut) fuse.Status {
	st := v.attr(path, &out.Attr)
	if st.Ok() {
		out.NodeId = out.Ino
		v.mu.Lock()
		v.paths[out.Ino] = path
		v.mu.Unlock()
	}
	return st
}

func (v *folding) Lookup(_ <-chan struct{}, in *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	path, ok := v.find(in.NodeId, name)
	if !ok {
		return fuse.ENOENT
	}
	return v.entry(path, out)
}

func (v *folding) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	return v.attr(v.path(in.NodeId), &out.Attr)
}

func (v *folding) SetAttr(_ <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	if size, ok := in.GetSize(); ok {
		if err := os.Truncate(v.path(in.NodeId), int64(size)); err != nil {
			return fuse.ToStatus(err)
		}
	}
	return v.attr(v.path(in.NodeId), &out.Attr)
}

// open keeps nothing open, because the kernel would release a handle only some time after its
// close.
func (v *folding) open(path string, flags uint32, mode uint32) fuse.Status {
	fd, err := unix.Open(path, int(flags)&^unix.O_APPEND|unix.O_CLOEXEC, mode&0o7777)
	if err == nil {
		unix.Close(fd)
	}
	return fuse.ToStatus(err)
}

func (v *folding) Open(_ <-chan struct{}, in *fuse.OpenIn, _ *fuse.OpenOut) fuse.Status {
	return v.open(v.path(in.NodeId), in.Flags&^unix.O_CREAT, 0)
}

func (v *folding) Create(_ <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	path, _ := v.find(in.NodeId, name)
	st := v.open(path, in.Flags|unix.O_CREAT, in.Mode)
	if st.Ok() {
		st = v.entry(path, &out.EntryOut)
	}
	return st
}

func (v *folding) Read(_ <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	f, err := os.Open(v.path(in.NodeId))
	if err != nil {
		return nil, fuse.ToStatus(err)
	}
	defer f.Close()
	n, err := unix.Pread(int(f.Fd()), buf, int64(in.Offset))
	return fuse.ReadResultData(buf[:max(n, 0)]), fuse.ToStatus(err)
}

func (v *folding) Write(_ <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	f, err := os.OpenFile(v.path(in.NodeId), os.O_WRONLY, 0)
	if err != nil {
		return 0, fuse.ToStatus(err)
	}
	defer f.Close()
	n, err := unix.Pwrite(int(f.Fd()), data, int64(in.Offset))
	return uint32(max(n, 0)), fuse.ToStatus(err)
}

func (v *folding) Mkdir(_ <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	path, ok := v.find(in.NodeId, name)
	if ok {
		return fuse.Status(unix.EEXIST)
	}
	if err := unix.Mkdir(path, in.Mode); err != nil {
		return fuse.ToStatus(err)
	}
	return v.entry(path, out)
}

func (v *folding) Link(_ <-chan struct{}, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	path, ok := v.find(in.NodeId, name)
	if ok {
		return fuse.Status(unix.EEXIST)
	}
	if err := os.Link(v.path(in.Oldnodeid), path); err != nil {
		return fuse.Status(err.(*os.LinkError).Err.(syscall.Errno))
	}
	return v.entry(path, out)
}

func (v *folding) Unlink(_ <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	path, _ := v.find(in.NodeId, name)
	return fuse.ToStatus(unix.Unlink(path))
}

func (v *folding) Rmdir(_ <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	path, _ := v.find(in.NodeId, name)
	return fuse.ToStatus(unix.Rmdir(path))
}

// Rename keeps the existing spelling if the new name replaces an entry, as ext4 does.
func (v *folding) Rename(_ <-chan struct{}, in *fuse.RenameIn, old, name string) fuse.Status {
	from, _ := v.find(in.NodeId, old)
	to, ok := v.find(in.Newdir, name)
	if from == to {
		to = filepath.Join(filepath.Dir(to), name)
	} else if ok && in.Flags&unix.RENAME_NOREPLACE != 0 {
		return fuse.Status(unix.EEXIST)
	}
	if err := unix.Rename(from, to); err != nil {
		return fuse.ToStatus(err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for id, p := range v.paths {
		if p == from || strings.HasPrefix(p, from+"/") {
			v.paths[id] = to + p[len(from):]
		}
	}
	return fuse.OK
}

func (v *folding) OpenDir(<-chan struct{}, *fuse.OpenIn, *fuse.OpenOut) fuse.Status { return fuse.OK }

func (v *folding) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	all, err := os.ReadDir(v.path(in.NodeId))
	if err != nil {
		return fuse.ToStatus(err)
	}
	for i := int(in.Offset); i < len(all); i++ {
		var a fuse.Attr
		v.attr(filepath.Join(v.path(in.NodeId), all[i].Name()), &a)
		if !out.AddDirEntry(fuse.DirEntry{Name: all[i].Name(), Mode: a.Mode, Ino: a.Ino, Off: uint64(i + 1)}) {
			break
		}
	}
	return fuse.OK
}

// Ioctl reports the flag that chattr +F sets for every directory.
func (v *folding) Ioctl(_ <-chan struct{}, in *fuse.IoctlIn, _ []byte, _ *fuse.IoctlOut, out []byte) fuse.Status {
	if in.Cmd != unix.FS_IOC_GETFLAGS&0xffffffff || len(out) < 4 {
		return fuse.Status(unix.ENOTTY)
	}
	clear(out)
	binary.NativeEndian.PutUint32(out, 0x40000000)
	return fuse.OK
}

func (v *folding) StatFs(_ <-chan struct{}, _ *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	out.NameLen = 255
	return fuse.OK
}

// foldingVolume mounts a folding file system. It returns the path of a directory on that file
// system, and a path that leads to the same directory without the mount.
func foldingVolume(t *testing.T) (dir, below string) {
	t.Helper()
	needFUSE(t)
	root, err := os.MkdirTemp("", testDirs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	dir, below = filepath.Join(root, "volume"), filepath.Join(root, "below")
	for _, d := range []string{dir, below, filepath.Join(below, "project")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	v := &folding{RawFileSystem: fuse.NewDefaultRawFileSystem(), paths: map[uint64]string{fuse.FUSE_ROOT_ID: below}}
	srv, err := fuse.NewServer(v, dir, &fuse.MountOptions{DirectMount: true, DisableReadDirPlus: true, DisableSplice: true, FsName: "folding", Name: "folding", AllowOther: os.Geteuid() == 0})
	if err != nil {
		t.Fatal(err)
	}
	go srv.Serve()
	if err := srv.WaitMount(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Unmount(); err != nil {
			t.Error(err)
		}
	})
	return filepath.Join(dir, "project"), filepath.Join(below, "project")
}
