//go:build linux || darwin

package fusefs

import (
	"cachebro/fusefs/sys"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// ReadDir lists names only.
func (o *overlay) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return o.readDir(in, func(n *inode, dir int, e fuse.DirEntry) bool {
		var found *sys.Stat
		var sx sys.Stat
		if o.devices.several() && sys.StatAt(dir, e.Name, &sx) == nil {
			found = &sx
		}
		e.Ino = o.numberIn(n, e, found)
		return out.AddDirEntry(e)
	})
}

// ReadDirPlus lists names with their inodes, each of which counts as looked up.
func (o *overlay) ReadDirPlus(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return o.readDir(in, func(n *inode, dir int, e fuse.DirEntry) bool {
		if e.Name == "." || e.Name == ".." {
			e.Ino = o.numberIn(n, e, nil)
			return out.AddDirLookupEntry(e) != nil
		}
		var sx sys.Stat
		made := o.makes.start()
		found := sys.StatAt(dir, e.Name, &sx) == nil
		if found {
			e.Ino, e.Mode = o.numberIn(n, e, &sx), sx.Mode
		}
		eo := out.AddDirLookupEntry(e)
		if found && eo != nil {
			o.lookedUp(&in.InHeader, n, dir, e.Name, &sx, made, eo)
		}
		return eo != nil
	})
}

// direntOf decodes the first of the entries that the source returned.
func direntOf(b []byte) (fuse.DirEntry, int) {
	e, size := sys.ParseDirent(b)
	return fuse.DirEntry{Ino: e.Ino, Off: e.Next, Mode: e.Mode, Name: e.Name}, size
}
