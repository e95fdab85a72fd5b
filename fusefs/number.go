//go:build linux || darwin

package fusefs

import (
	"maps"
	"sync"
	"sync/atomic"

	"cachebro/fusefs/sys"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// # Inode numbers
//
// The mount has one device number, but the project may contain files of several devices: mounted
// file systems, btrfs subvolumes, the layers of an overlayfs. Programs treat two files with the
// same device and inode number as one file: cp refuses to copy, diff finds no difference, tar
// writes a link, find reports a loop. So only a file on the root's device has the same inode number
// as on the source. For other files, the bits above numberBits hold a number for the device.
//
// The result has at most 53 bits, unless the source's own number has more. JavaScript stores
// numbers as float64, which cannot tell larger neighbours apart.

const (
	numberBits = 40      // bits for the source's own number; very few file systems use more
	deviceMax  = 1 << 13 // device numbers that fit above them; 0 is the root's device
)

// devices numbers the devices other than the root's.
type devices struct {
	root   uint64  // st_dev of the root
	ledger *ledger // nil if no other server can take over

	mu     sync.Mutex                        // held while number is replaced
	number atomic.Pointer[map[uint64]uint64] // by st_dev; a published map never changes
}

// several reports whether a file of another device was seen.
func (d *devices) several() bool { return d.number.Load() != nil }

// numberOf returns the number of a device. It is derived from st_dev, so it is usually the same in
// the next mount: git keeps inode numbers in its index.
func (d *devices) numberOf(dev uint64) uint64 {
	if known := d.number.Load(); known != nil {
		if no, ok := (*known)[dev]; ok {
			return no
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	known := map[uint64]uint64{}
	if all := d.number.Load(); all != nil {
		known = maps.Clone(*all)
	}
	if no, ok := known[dev]; ok {
		return no
	}
	taken := make(map[uint64]bool, len(known))
	for _, no := range known {
		taken[no] = true
	}
	no := 1 + dev*0x9e3779b97f4a7c15>>32%(deviceMax-1)
	for tries := 1; taken[no] && tries < deviceMax; tries++ {
		no = 1 + no%(deviceMax-1)
	}
	d.ledger.device(dev, no) // before a program sees such an inode number
	known[dev] = no
	d.number.Store(&known)
	return no
}

// restore registers a number that an earlier server gave to a device. No lock is needed, because
// nothing else uses d yet.
func (d *devices) restore(dev, no uint64) {
	known := map[uint64]uint64{}
	if all := d.number.Load(); all != nil {
		known = *all
	}
	known[dev] = no
	d.number.Store(&known)
}

// inode returns the inode number that the mount shows for a file of the source.
func (d *devices) inode(dev, ino uint64) uint64 {
	if dev == d.root {
		return ino
	}
	return ino ^ d.numberOf(dev)<<numberBits
}

// numberIn returns the inode number of entry e of directory n, as stat(2) returns it. sx holds the
// entry's attributes, or is nil if unknown. The number in e can differ: it can be that of a
// directory covered by a mount, or of a file in a layer of an overlayfs.
func (o *namespace) numberIn(n *inode, e fuse.DirEntry, sx *sys.Stat) uint64 {
	switch {
	case e.Name == ".":
		return o.devices.inode(n.key.dev, n.key.ino)
	case e.Name == "..":
		o.tree.RLock()
		defer o.tree.RUnlock()
		if p := n.link.parent; p != nil {
			n = p
		}
		return o.devices.inode(n.key.dev, n.key.ino)
	case sx != nil:
		return o.devices.inode(sx.Dev, sx.Ino)
	}
	return o.devices.inode(n.key.dev, e.Ino)
}
