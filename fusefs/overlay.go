//go:build linux || darwin

package fusefs

import (
	"log/slog"
	"os"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cachebro/fusefs/changes"
	"cachebro/fusefs/sys"
	"cachebro/store/leaf/ignore"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// rootID is the node id of the root, by the protocol.
const rootID = fuse.FUSE_ROOT_ID

// namespace owns names and inodes. It finds the source file of a node, and that file's attributes.
type namespace struct {
	fuse.RawFileSystem // answers ENOSYS to the requests that the overlay leaves out: Access, OpenDir

	obs        Observer
	finder     Finder // obs, if obs is a Finder
	classifier Classifier
	log        *slog.Logger
	hiddenDir  string // parent and name of Options.Hidden
	hiddenName string

	root  *dirfd
	tree  sync.RWMutex
	table *table

	devices devices

	dirs      dirfds
	moves     moves
	creations moves // counts the files being made; see noteOutside
	streams   streams
	notifier  *notifier
	ledger    *ledger // nil if no other server can take over

	changes    *changes.Tracker
	aloneSince atomic.Pointer[time.Time] // when outside was last cleared; nil if never

	outside    atomic.Bool // processes may be changing the source directly
	bypassable atomic.Bool // processes can reach the source without going through the mount; see SetBypassable
	noXattr    bool        // the source has no extended attributes
	acl        bool        // the source has access control lists
	labels     atomic.Bool // a file has, or had, an SELinux label
	us         creds
}

// contents owns the open files and their openers, and the writes that have not yet been reported to
// the Observer.
type contents struct {
	namespace

	releaser Releaser // obs, if obs is a Releaser
	handles  *handles
	keptFDs  atomic.Int64 // number of descriptors that the method keep holds open
	dirty    dirtySet
	procs    *processes
	sentBack sentBack
	fdStore  FDStore
	reopened map[uint64]*handle // handles of an earlier server, by the id of the request that opened them; read-only

	outsideWrites outsideWrites
}

// overlay is the file system. It answers the kernel's requests from the source directory. It also
// owns the processes' file locks and the take-over by another server. The package comment gives the
// order of its mutexes.
type overlay struct {
	contents

	locking  locking
	prepared prepared
}

// Access gets ENOSYS, because the kernel checks permissions (default_permissions). OpenDir and
// ReleaseDir get it so that the kernel caches directories.
var _ fuse.RawFileSystem = (*overlay)(nil)

func newOverlay(opt *Options) (*overlay, error) {
	o := &overlay{}
	o.RawFileSystem = fuse.NewDefaultRawFileSystem()
	o.obs = opt.Observer
	o.classifier = opt.Classifier
	o.log = opt.Logger
	o.table = newTable()
	o.handles = newHandles()
	o.procs = newProcesses()
	o.us = ownCreds()
	o.changes = changes.New(0)
	if o.log == nil {
		o.log = slog.New(slog.DiscardHandler)
	}
	if h := path.Clean(opt.Hidden); opt.Hidden != "" && h != "." {
		o.hiddenDir, o.hiddenName = path.Split(h)
		o.hiddenDir = strings.TrimSuffix(o.hiddenDir, "/")
	}
	o.dirs.most = allowedDirFDs()
	o.releaser, _ = opt.Observer.(Releaser)
	o.finder, _ = opt.Observer.(Finder)
	o.procs.commands.disabled = opt.NoCommands
	if opt.commandOf != nil {
		o.procs.commands.ask = opt.commandOf
	}
	if d, ok := opt.Observer.(Describer); ok {
		o.procs.commands.tell = d.Described
	}
	o.outside.Store(opt.Outside)
	o.bypassable.Store(opt.Outside)
	o.outsideWrites.start = currentMoment()

	fd, err := sys.Open(int(opt.Source.Fd()), ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open source", Path: opt.Source.Name(), Err: err}
	}
	var sx sys.Stat
	if err := sys.StatFD(fd, &sx); err != nil {
		unix.Close(fd)
		return nil, &os.PathError{Op: "stat source", Path: opt.Source.Name(), Err: err}
	}
	if err := o.useLedger(opt); err != nil {
		unix.Close(fd)
		return nil, err
	}
	o.devices.root, o.devices.ledger = sx.Dev, o.ledger
	root := &inode{fs: o, id: rootID, key: keyOf(&sx), kind: unix.S_IFDIR, nlookup: 1}
	if opt.TakeOver {
		o.table.put(root, true)
	} else {
		o.table.ref(root.key, func(uint64) *inode { return root }) // the first id is the root's
	}
	o.root = &dirfd{fd: fd, node: root}
	o.root.refs.Store(1)
	o.root.acquire() // one reference for root.dirfd and one for o.root
	root.dirfd.Store(o.root)

	_, err = sys.GetXattrOpen(fd, "user.cachebro", nil)
	o.noXattr = err == unix.EOPNOTSUPP
	_, err = sys.GetXattrOpen(fd, sys.AccessACL, nil)
	o.acl = sys.AccessACL != "" && (err == nil || err == unix.ENODATA)
	_, err = sys.GetXattrOpen(fd, label, nil)
	o.labels.Store(err == nil)
	o.dirty.init(o)
	return o, nil
}

// close closes all descriptors. The overlay must not be used afterwards.
func (o *overlay) close() {
	o.dirty.stop()
	o.endLocks()
	o.streams.closeAll()
	for i := range o.table.byID {
		for _, n := range o.table.byID[i].m {
			o.forgotten(n)
		}
	}
	o.dirs.closeAll()
	for i := range o.handles.part {
		for fh := range o.handles.part[i].m {
			if h := o.handles.take(fh); h != nil {
				h.node.dropHandle(h)
				h.release()
			}
		}
	}
	if o.root.node.dirfd.Swap(nil) != nil {
		o.root.release()
	}
	o.root.release()
	o.ledger.close()
}

func (o *namespace) String() string { return "cachebro" }

// SetDebug does nothing, because Options.Logger is used.
func (o *namespace) SetDebug(bool) {}

// node returns the inode with a node id, or ESTALE. The kernel should never ask for an id that it
// has forgotten.
func (o *namespace) node(id uint64) (*inode, fuse.Status) {
	if n := o.table.get(id); n != nil {
		return n, fuse.OK
	}
	return nil, fuse.Status(unix.ESTALE)
}

func (o *namespace) hidden(parent *inode, name string) bool {
	if o.hiddenName == "" {
		return false
	}
	sameName := name == o.hiddenName || parent.folding.Load() == foldsNames && sys.SameName(name, o.hiddenName)
	return sameName && parent.LastPath() == o.hiddenDir
}

// class returns the class of path p; see Options.Classifier.
func (o *namespace) class(p string, isDir bool) ignore.Class {
	if o.classifier != nil {
		return o.classifier.Class(p, isDir)
	}
	if p == ".git" || strings.HasPrefix(p, ".git/") || strings.HasSuffix(p, "/.git") || strings.Contains(p, "/.git/") {
		return ignore.Excluded
	}
	return ignore.Tracked
}
