//go:build linux || darwin

package fusefs

import (
	"iter"
	"maps"
	"os"
	"sync"
	"sync/atomic"

	"cachebro/fusefs/sys"
	"cachebro/store/leaf/event"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// link is one name of an inode.
type link struct {
	parent *inode
	name   string
	slot   uint32 // in the ledger
}

// inode is a file or a directory that the kernel knows. An Observer gets it as a File.
type inode struct {
	fs   *overlay
	id   uint64
	key  key
	kind uint32 // S_IFMT bits; they never change
	mark atomic.Uint32

	slot  atomic.Uint32 // in the ledger
	noted atomic.Uint32 // lower half of the generation in which a change was last noted; see noteContent

	nlookup uint64 // guarded by the table's shard of key

	// overlay.tree guards link, more, gone and namesSeen. The root has no link. If gone is set, the
	// inode has no name, and link is its last one. namesSeen counts the names that the inode got
	// after its first.
	link      link
	more      *[]link
	gone      bool
	namesSeen uint32

	order    sync.Mutex // see the package comment; guards writes and reported
	writes   *writes    // nil if the inode is clean and no handle can write to it
	reported *stamp     // stamp of the content last reported to the Observer; nil if none was reported or it is too small for a tail

	mu        sync.Mutex // guards handles, kernelHas
	handles   *handle
	kernelHas kernelState

	folding    atomic.Uint32 // for a directory; see folds
	holdsNames atomic.Bool   // for a directory: a file with several names has one of them in its subtree; see table.forget
	absent     atomic.Uint32 // extended attributes that the inode is known not to have; written under mu, see absentBit
	removed    atomic.Bool   // the last name was removed; any name that remains was made by the Observer to save the file
	locked     atomic.Bool   // a process has locked the file, or tried to
	queued     atomic.Bool   // the inode is in the notifier's queue
	spoilt     atomic.Uint32 // counts changes that made the kernel's cached pages or attributes wrong
	fresh      atomic.Uint32 // the value of spoilt when the kernel's cache was last dropped
	attrThread atomic.Uint32 // the thread that asked for attributes since the last change; see noteAttrRead

	dirfd atomic.Pointer[dirfd]
}

// kernelState is the state of an inode on which the kernel's cache is based.
type kernelState struct {
	known        bool
	young        bool   // the ctime is so recent that another change may get the same ctime
	busy         int16  // number of the server's own operations in progress
	gen          uint32 // number of the server's own operations that have ended
	mtime, ctime int64
	size         int64
}

var _ File = (*inode)(nil)

func (n *inode) isDir() bool { return n.kind == unix.S_IFDIR }
func (n *inode) isReg() bool { return n.kind == unix.S_IFREG }

// ID returns the node id.
func (n *inode) ID() uint64 { return n.id }

// Mark returns a number for the Observer's use.
func (n *inode) Mark() *atomic.Uint32 { return &n.mark }

// Path returns one current name. It returns "" for the root, and if there is no name.
func (n *inode) Path() string {
	n.fs.tree.RLock()
	defer n.fs.tree.RUnlock()
	if n.gone {
		return ""
	}
	return n.pathLocked()
}

func (n *inode) Paths(most int) []string {
	n.fs.tree.RLock()
	defer n.fs.tree.RUnlock()
	if n.gone {
		return nil
	}
	all := []string{n.pathLocked()}
	if n.more != nil {
		for _, l := range *n.more {
			if len(all) == most {
				break
			}
			dir := l.parent.pathLocked()
			if dir != "" {
				dir += "/"
			}
			all = append(all, dir+l.name)
		}
	}
	return all
}

func (n *inode) NamesSeen() uint32 {
	n.fs.tree.RLock()
	defer n.fs.tree.RUnlock()
	return n.namesSeen + 1
}

// LastPath returns the current name or, if there is none, the name removed last.
func (n *inode) LastPath() string {
	n.fs.tree.RLock()
	defer n.fs.tree.RUnlock()
	return n.pathLocked()
}

// pathLocked joins the names from the root in one allocation. The caller holds overlay.tree.
func (n *inode) pathLocked() string {
	size := 0
	for i := n; i.link.parent != nil; i = i.link.parent {
		size += len(i.link.name) + 1
	}
	if size == 0 {
		return ""
	}
	buf := make([]byte, size-1)
	end := len(buf)
	for i := n; i.link.parent != nil; i = i.link.parent {
		end -= len(i.link.name)
		copy(buf[end:], i.link.name)
		if end > 0 {
			end--
			buf[end] = '/'
		}
	}
	return string(buf)
}

// below reports whether a name of n is in the subtree of directory d.
func (n *inode) below(d *inode) bool {
	var buf [2]link
	for _, l := range n.links(buf[:]) {
		n.fs.tree.RLock()
		for p := l.parent; p != nil; p = p.link.parent {
			if p == d {
				n.fs.tree.RUnlock()
				return true
			}
		}
		n.fs.tree.RUnlock()
	}
	return false
}

func (n *inode) childPath(name string) string {
	p := n.LastPath()
	if p == "" {
		return name
	}
	return p + "/" + name
}

// Open implements File with a new read-only descriptor of the source file.
func (n *inode) Open() (int, error) {
	// Our own reads must not change the access time.
	fd, err := n.fs.openInode(n, unix.O_RDONLY|sys.NoAtime)
	if err == unix.EPERM { // only the owner may read without changing the access time
		fd, err = n.fs.openInode(n, unix.O_RDONLY)
	}
	if err == unix.EACCES || err == unix.EPERM {
		// If the mode denies reading even to the owner, only a handle that can read gives access.
		if h := n.anyHandle(true); h != nil {
			fd, err = unix.FcntlInt(uintptr(h.fd), unix.F_DUPFD_CLOEXEC, 0)
			h.release()
		}
	}
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: n.LastPath(), Err: err}
	}
	return fd, nil
}

func (n *inode) Stat() (event.Stat, error) {
	var sx sys.Stat
	if err := n.fs.statInode(n, &sx); err != nil {
		return event.Stat{}, &os.PathError{Op: "stat", Path: n.LastPath(), Err: err}
	}
	return sx.Stat, nil
}

// At implements File.
func (n *inode) At(fn func(path string) error) error {
	return n.fs.withInode(n, func(at sys.Ref) error {
		path, err := sys.Path(at)
		if err != nil {
			return err
		}
		return fn(path)
	})
}

// hasLinkLocked reports whether (parent, name) is a known name of n. The caller holds overlay.tree.
func (n *inode) hasLinkLocked(parent *inode, name string) bool {
	if n.gone {
		return false
	}
	if n.link.parent == parent && n.link.name == name {
		return true
	}
	if n.more != nil {
		for _, l := range *n.more {
			if l.parent == parent && l.name == name {
				return true
			}
		}
	}
	return false
}

// addLink makes (parent, name) a name of n. A directory has only one name, so the new one replaces
// the old one; that happens after a rename in the source.
func (n *inode) addLink(parent *inode, name string) {
	t := &n.fs.tree
	if n.hasLink(parent, name) || n.link.parent == nil && !n.gone && n.id == rootID {
		return
	}
	t.Lock()
	defer t.Unlock()
	switch {
	case n.hasLinkLocked(parent, name):
	case n.gone || n.isDir():
		n.renameLocked(&n.link, parent, name)
		n.setGoneLocked(false)
	default:
		// The newest name goes first, because after a rename in the source it is probably the only
		// one left.
		if n.more == nil {
			n.more = new([]link)
		}
		n.namesSeen++
		*n.more = append(*n.more, n.link)
		n.link.parent.holdsNames.Store(true)
		parent.holdsNames.Store(true)
		n.link = link{parent, name, n.fs.ledger.link(n, parent, name)}
	}
}

// dropLink removes a name and reports whether n has another known name.
func (n *inode) dropLink(parent *inode, name string) (left bool) {
	t := &n.fs.tree
	t.Lock()
	defer t.Unlock()
	if n.more != nil {
		for i, l := range *n.more {
			if l.parent == parent && l.name == name {
				n.fs.ledger.drop(l.slot)
				*n.more = append((*n.more)[:i], (*n.more)[i+1:]...)
				return true
			}
		}
	}
	if n.link.parent != parent || n.link.name != name {
		return !n.gone
	}
	if n.more != nil && len(*n.more) > 0 {
		n.fs.ledger.drop(n.link.slot)
		n.link = (*n.more)[0]
		*n.more = (*n.more)[1:]
		if len(*n.more) == 0 {
			n.more = nil
		}
		return true
	}
	n.setGoneLocked(true)
	return false
}

// moveLink replaces one name with another in one step, so that n is never seen without a name.
func (n *inode) moveLink(from *inode, fromName string, to *inode, toName string) {
	t := &n.fs.tree
	t.Lock()
	defer t.Unlock()
	if n.gone || n.link.parent == from && n.link.name == fromName {
		n.renameLocked(&n.link, to, toName)
		n.setGoneLocked(false)
		return
	}
	if n.more != nil {
		for i, l := range *n.more {
			if l.parent == from && l.name == fromName {
				n.renameLocked(&(*n.more)[i], to, toName)
				return
			}
		}
	}
}

// renameLocked replaces a name. It adds the new name to the ledger before it removes the old one.
func (n *inode) renameLocked(l *link, parent *inode, name string) {
	old := l.slot
	n.namesSeen++
	*l = link{parent, name, n.fs.ledger.link(n, parent, name)}
	n.fs.ledger.drop(old)
	if n.more != nil {
		parent.holdsNames.Store(true)
	}
}

func (n *inode) setGoneLocked(gone bool) {
	if n.gone != gone {
		n.gone = gone
		n.fs.ledger.flag(n, nodeGone, gone)
	}
}

func (n *inode) forgetLinks() {
	n.fs.tree.Lock()
	defer n.fs.tree.Unlock()
	n.fs.ledger.drop(n.link.slot)
	n.link.slot = 0
	if n.more != nil {
		for i := range *n.more {
			n.fs.ledger.drop((*n.more)[i].slot)
			(*n.more)[i].slot = 0
		}
	}
}

// links returns the known names. The first is the one most likely to be valid still.
func (n *inode) links(buf []link) []link {
	n.fs.tree.RLock()
	defer n.fs.tree.RUnlock()
	if n.gone || n.link.parent == nil {
		return buf[:0]
	}
	buf = append(buf[:0], n.link)
	if n.more != nil {
		buf = append(buf, *n.more...)
	}
	return buf
}

// eachLink yields the known names in the order of links. If there are several names, it yields the
// first one twice, because it copies the list of names, which includes the first, only when the
// caller asks for more.
func (n *inode) eachLink() iter.Seq[link] {
	return func(yield func(link) bool) {
		n.fs.tree.RLock()
		first, known, several := n.link, !n.gone && n.link.parent != nil, n.more != nil
		n.fs.tree.RUnlock()
		if !known || !yield(first) || !several {
			return
		}
		for _, l := range n.links(nil) {
			if !yield(l) {
				return
			}
		}
	}
}

// # Inode numbers
//
// The mount has one device number, but the project may contain files of several devices: mounted
// file systems, btrfs subvolumes, the layers of an overlayfs. Programs treat two files with the
// same device and inode number as one file: cp refuses to copy, diff finds no difference, tar
// writes a link, find reports a loop. So only a file on the root's device has the same inode number
// as in the source. For other files, the bits above numberBits hold a number for the device.
//
// The result has at most 53 bits, unless the source's own number has more. JavaScript stores
// numbers as float64, which cannot distinguish larger neighbouring numbers.

const (
	numberBits = 40      // bits for the source's own number; very few file systems use more
	deviceMax  = 1 << 13 // device numbers that fit into the bits above; 0 is the root's device
)

// devices assigns a number to every device except the root's.
type devices struct {
	root   uint64  // st_dev of the root
	ledger *ledger // nil if no other server can take over

	mu     sync.Mutex                        // held while number is replaced
	number atomic.Pointer[map[uint64]uint64] // by st_dev; a published map never changes
}

// several reports whether a file of another device was seen.
func (d *devices) several() bool { return d.number.Load() != nil }

// numberOf returns the number of a device. The number is derived from st_dev, so that it is usually
// the same in the next mount. This matters because git keeps inode numbers in its index.
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
	d.ledger.device(dev, no) // before a program sees an inode number that contains it
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
// entry's attributes, or is nil if unknown. The number in e can differ from it: it can belong to a
// directory that is covered by a mount, or to a file in a layer of an overlayfs.
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
