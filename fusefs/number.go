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
// The mount has one device number, and a program takes two files with the same device
// and inode number for one: cp refuses, diff finds no difference, tar writes a link,
// find sees a loop. Below the project there may be other devices: file systems that
// are mounted there, btrfs subvolumes, the layers of an overlayfs. What lies on the
// root's device keeps its number. The number of anything else carries that of its
// device above numberBits, as long as the mount lives.
//
// The result has 53 bits, unless the source's own has more: JavaScript keeps a
// number in a float64, which would make neighbours equal.

const (
	numberBits = 40      // of a number of the source; file systems that go beyond are very rare
	deviceMax  = 1 << 13 // device numbers above them, 0 is the root's
)

// devices numbers the devices other than the root's.
type devices struct {
	mu     sync.Mutex                        // held while number is replaced
	number atomic.Pointer[map[uint64]uint64] // by st_dev; never changed once it is published
}

// several reports whether anything of another device than the root's was seen.
func (d *devices) several() bool { return d.number.Load() != nil }

// of returns the number of a device. It depends on st_dev, so that it usually is the
// same in the next mount, where git has kept it in its index.
func (d *devices) of(dev uint64, l *ledger) uint64 {
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
	l.device(dev, no) // before anybody is shown a number with it
	known[dev] = no
	d.number.Store(&known)
	return no
}

// restore is for a number that an earlier server gave. Nobody else is there yet.
func (d *devices) restore(dev, no uint64) {
	known := map[uint64]uint64{}
	if all := d.number.Load(); all != nil {
		known = *all
	}
	known[dev] = no
	d.number.Store(&known)
}

// number is the inode number that the mount shows for one of the source.
func (o *namespace) number(dev, ino uint64) uint64 {
	if dev == o.root.node.key.dev {
		return ino
	}
	return ino ^ o.devices.of(dev, o.ledger)<<numberBits
}

// numberIn is the number of an entry of the directory n, which agrees with what stat
// says of it. sx: its attributes, nil if they are not known. The source's own entry
// tells of what a mount covers, and of the layers below an overlayfs.
func (o *namespace) numberIn(n *inode, e fuse.DirEntry, sx *sys.Stat) uint64 {
	switch {
	case e.Name == ".":
		return o.number(n.key.dev, n.key.ino)
	case e.Name == "..":
		o.tree.RLock()
		defer o.tree.RUnlock()
		if p := n.link.parent; p != nil {
			n = p
		}
		return o.number(n.key.dev, n.key.ino)
	case sx != nil:
		return o.number(sx.Dev, sx.Ino)
	}
	return o.number(n.key.dev, e.Ino)
}
