//go:build linux || darwin

package fusefs

import (
	"cachebro/fusefs/sys"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// ReadDir lists names only.
func (o *overlay) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return o.readDir(in, func(_ *inode, _ int, e fuse.DirEntry) bool { return out.AddDirEntry(e) })
}

// ReadDirPlus lists names with their inodes, each of which counts as looked up.
func (o *overlay) ReadDirPlus(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return o.readDir(in, func(n *inode, dir int, e fuse.DirEntry) bool {
		eo := out.AddDirLookupEntry(e)
		if eo == nil {
			return false
		}
		if e.Name == "." || e.Name == ".." {
			return true
		}
		var sx sys.Stat
		made := o.makes.start()
		if sys.StatAt(dir, e.Name, &sx) == nil {
			o.lookedUp(&in.InHeader, n, dir, e.Name, &sx, made, eo)
			out.FixMode(sx.Mode)
		}
		return true
	})
}

// direntOf decodes the first of the entries that the source returned.
func direntOf(b []byte) (fuse.DirEntry, int) {
	e, size := sys.ParseDirent(b)
	return fuse.DirEntry{Ino: e.Ino, Off: e.Next, Mode: e.Mode, Name: e.Name}, size
}
