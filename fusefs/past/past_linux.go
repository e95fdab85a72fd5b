package past

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"cachebro/store/wire"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

const (
	forEver  = time.Hour        // how long the kernel may cache data that cannot change
	forNow   = time.Second      // how long the kernel may cache data that can change
	patience = 10 * time.Second // timeout of one query to the Source
)

// Server serves a mounted past (see the package comment).
type Server struct {
	*fuse.Server
	last atomic.Int64 // Unix ns of the last query to the Source
}

// Idle returns the time since the last query to the Source. Answers from the kernel's cache do not
// count.
func (s *Server) Idle() time.Duration { return time.Since(time.Unix(0, s.last.Load())) }

// Mount mounts the past on a directory. Only this user can use the mount.
func Mount(point, name string, src Source) (*Server, error) {
	s := &Server{}
	s.last.Store(time.Now().UnixNano())
	t := &tree{src: src, server: s}
	long, now := forEver, forNow
	root := &fixed{t: t, list: func() []string { return []string{"at", "versions"} }}
	root.child = func(_ context.Context, name string) (fs.InodeEmbedder, time.Duration, error) {
		switch name {
		case "at":
			return t.moments(), forEver, nil
		case "versions":
			return &directory{t: t, versions: true}, forNow, nil
		}
		return nil, 0, syscall.ENOENT
	}
	server, err := fs.Mount(point, root, &fs.Options{
		NullPermissions: true, EntryTimeout: &now, AttrTimeout: &long, NegativeTimeout: new(time.Duration), UID: uint32(unix.Getuid()), GID: uint32(unix.Getgid()),
		MountOptions: fuse.MountOptions{
			Name: "cachebro-past", FsName: name, Options: []string{"ro", "nosuid", "nodev"}, DirectMount: true, MaxWrite: 1 << 20,
			DisabledCapabilities: fuse.CAP_PASSTHROUGH,
		},
	})
	if err != nil {
		return nil, err
	}
	s.Server = server
	return s, nil
}

// tree holds the data that all nodes share.
type tree struct {
	src    Source
	server *Server
}

// ask returns the context for one query to the Source, and notes the time. Cancelling ctx does not
// end the query. The kernel cancels a request at any signal, such as the one for a child's end, but
// programs do not expect a readdir to fail because of a signal.
func (t *tree) ask(ctx context.Context) (context.Context, context.CancelFunc) {
	t.server.last.Store(time.Now().UnixNano())
	return context.WithTimeout(context.WithoutCancel(ctx), patience)
}

// errno converts an error to an errno. EAGAIN means that a later attempt may succeed.
func errno(err error) syscall.Errno {
	var no syscall.Errno
	switch {
	case err == nil:
		return 0
	case errors.As(err, &no):
		return no
	case errors.Is(err, wire.ErrNotFound), errors.Is(err, wire.ErrBadRequest):
		return syscall.ENOENT
	case errors.Is(err, wire.ErrNoDaemon), errors.Is(err, wire.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		return syscall.EAGAIN
	}
	return syscall.EIO
}

// content fetches a content by its hash. It caches nothing, because purged content must not remain
// in this process.
func (t *tree) content(ctx context.Context, hash string) ([]byte, error) {
	if hash == "" {
		return nil, nil
	}
	ctx, cancel := t.ask(ctx)
	defer cancel()
	return t.src.Content(ctx, hash)
}

// number computes an inode number from the values that identify a file.
func number(what ...any) uint64 {
	h := fnv.New64a()
	fmt.Fprintln(h, what...)
	return h.Sum64()>>1 | 1
}

// fixed is a directory whose names are not stored in the history but computed.
type fixed struct {
	fs.Inode
	t     *tree
	list  func() []string
	child func(ctx context.Context, name string) (n fs.InodeEmbedder, valid time.Duration, err error)
}

var _ = (interface {
	fs.NodeLookuper
	fs.NodeReaddirer
	fs.NodeGetattrer
})(&fixed{})

func (f *fixed) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	n, valid, err := f.child(ctx, name)
	if err != nil {
		return nil, errno(err)
	}
	attr := fs.StableAttr{Mode: unix.S_IFDIR}
	if d, ok := n.(*directory); ok {
		attr.Ino = d.number()
		d.fill(&out.Attr)
	} else {
		out.Mode = 0o555
	}
	out.SetEntryTimeout(valid)
	return f.NewInode(ctx, n, attr), 0
}

func (f *fixed) Readdir(context.Context) (fs.DirStream, syscall.Errno) {
	var all []fuse.DirEntry
	for _, name := range f.list() {
		all = append(all, fuse.DirEntry{Name: name, Mode: unix.S_IFDIR})
	}
	return fs.NewListDirStream(all), 0
}

func (f *fixed) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode = 0o555
	return 0
}

// moments returns the directory of all moments that begin with words. Without words, it returns
// at/.
func (t *tree) moments(words ...string) fs.InodeEmbedder {
	f := &fixed{t: t, list: func() []string { return nil }}
	f.child = func(ctx context.Context, name string) (fs.InodeEmbedder, time.Duration, error) {
		ctx, cancel := t.ask(ctx)
		defer cancel()
		all := append(slices.Clone(words), name)
		seq, more, err := t.src.Moment(ctx, all)
		if err != nil || more {
			return t.moments(all...), forEver, err
		}
		valid := forNow // a name such as "10m" (10 minutes ago) soon means another moment
		if words != nil && words[0] == "version" {
			valid = forEver
		}
		return &directory{t: t, seq: seq}, valid, nil
	}
	return f
}

// directory is one directory of the tree at a moment, or of versions.
type directory struct {
	fs.Inode
	t        *tree
	seq      uint64
	path     string
	versions bool
	entry    wire.PastEntry

	mu    sync.Mutex // guards the fields below
	known *listing   // nil if the directory has not been listed yet
	read  time.Time  // when known was fetched
}

var _ = (interface {
	fs.NodeLookuper
	fs.NodeReaddirer
	fs.NodeGetattrer
})(&directory{})

func (d *directory) number() uint64 { return number(d.versions, d.seq, d.path) }

type listing struct {
	all   []wire.PastEntry
	index map[string]int // index in all, by name
}

// entries lists the directory. The tree at a moment is listed only once. A directory of versions is
// listed again after forNow, because there may be new versions.
func (d *directory) entries(ctx context.Context) (*listing, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known != nil && (!d.versions || time.Since(d.read) < forNow) {
		return d.known, nil
	}
	ctx, cancel := d.t.ask(ctx)
	defer cancel()
	all, err := d.t.src.Past(ctx, wire.PastQuery{Seq: d.seq, Path: []byte(d.path), Versions: d.versions})
	if err != nil {
		return nil, err
	}
	d.known, d.read = &listing{all, make(map[string]int, len(all))}, time.Now()
	for i, e := range all {
		d.known.index[string(e.Name)] = i
	}
	return d.known, nil
}

func (d *directory) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	held, err := d.entries(ctx)
	if err != nil {
		return nil, errno(err)
	}
	i, ok := held.index[name]
	if !ok {
		return nil, syscall.ENOENT
	}
	e := held.all[i]
	out.SetEntryTimeout(forEver)
	if e.Mode&unix.S_IFMT == unix.S_IFDIR {
		sub := &directory{t: d.t, seq: d.seq, path: path.Join(d.path, name), versions: d.versions, entry: e}
		if d.versions {
			out.SetEntryTimeout(forNow)
		}
		sub.fill(&out.Attr)
		return d.NewInode(ctx, sub, fs.StableAttr{Mode: unix.S_IFDIR, Ino: sub.number()}), 0
	}
	f := &file{t: d.t, entry: e}
	f.fill(&out.Attr)
	return d.NewInode(ctx, f, fs.StableAttr{Mode: e.Mode & unix.S_IFMT, Ino: number(d.versions, d.seq, d.path, name)}), 0
}

func (d *directory) Readdir(ctx context.Context) (fs.DirStream, syscall.Errno) {
	held, err := d.entries(ctx)
	if err != nil {
		return nil, errno(err)
	}
	list := make([]fuse.DirEntry, 0, len(held.all))
	for _, e := range held.all {
		list = append(list, fuse.DirEntry{Name: string(e.Name), Mode: e.Mode & unix.S_IFMT})
	}
	return fs.NewListDirStream(list), 0
}

func (d *directory) fill(out *fuse.Attr) {
	out.Mode, out.Nlink = d.entry.Mode&0o7777, 2
	out.Mode = cmp.Or(out.Mode, 0o555)
	fillOwner(out, d.entry)
}

func (d *directory) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	d.fill(&out.Attr)
	return 0
}

func fillOwner(out *fuse.Attr, e wire.PastEntry) {
	if e.Seq != 0 {
		out.Uid, out.Gid = e.UID, e.GID
	}
	t := time.Unix(0, e.Mtime)
	out.SetTimes(&t, &t, &t)
}

type file struct {
	fs.Inode
	t          *tree
	entry      wire.PastEntry
	lostReason atomic.Pointer[string] // why the content was lost since the listing
}

var _ = (interface {
	fs.NodeOpener
	fs.NodeReader
	fs.NodeReadlinker
	fs.NodeGetattrer
	fs.NodeGetxattrer
	fs.NodeListxattrer
})(&file{})

func (f *file) fill(out *fuse.Attr) {
	out.Mode, out.Nlink = f.entry.Mode&0o7777, 1
	out.Size = uint64(f.entry.Size)
	if f.entry.Mode&unix.S_IFMT == unix.S_IFLNK {
		out.Size = uint64(len(f.entry.Target))
	}
	out.Blocks = (out.Size + 511) / 512
	fillOwner(out, f.entry)
}

func (f *file) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	f.fill(&out.Attr)
	return 0
}

func (f *file) Readlink(context.Context) ([]byte, syscall.Errno) { return f.entry.Target, 0 }

type contentHandle []byte

func (f *file) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	if flags&(unix.O_ACCMODE|unix.O_TRUNC) != 0 {
		return nil, 0, syscall.EROFS
	}
	if f.readLostReason() != "" {
		return nil, 0, syscall.EIO
	}
	b, err := f.t.content(ctx, f.entry.Hash)
	if err == nil && int64(len(b)) != f.entry.Size {
		err = syscall.EIO
	}
	if no := errno(err); no == syscall.EAGAIN {
		return nil, 0, no
	} else if no != 0 {
		f.findLostReason(ctx)
		return nil, 0, syscall.EIO
	}
	return contentHandle(b), fuse.FOPEN_KEEP_CACHE, 0
}

// findLostReason lists the directory again to find out why the content is gone, because the daemon
// does not report a purge to this process.
func (f *file) findLostReason(ctx context.Context) {
	name, up := f.Parent()
	if up == nil {
		return
	}
	d, ok := up.Operations().(*directory)
	if !ok {
		return
	}
	d.mu.Lock()
	d.known = nil
	d.mu.Unlock()
	if held, err := d.entries(ctx); err == nil {
		if i, ok := held.index[name]; ok && held.all[i].Why != "" {
			f.lostReason.Store(&held.all[i].Why)
		}
	}
}

func (f *file) readLostReason() string {
	if reason := f.lostReason.Load(); reason != nil {
		return *reason
	}
	return f.entry.Why
}

func (f *file) Read(_ context.Context, h fs.FileHandle, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	b, _ := h.(contentHandle)
	b = b[min(off, int64(len(b))):]
	return fuse.ReadResultData(b[:min(len(b), len(dest))]), 0
}

// whyAttr is the extended attribute that says why a file's content is missing.
const whyAttr = "user.cachebro.why"

func (f *file) Getxattr(_ context.Context, attr string, dest []byte) (uint32, syscall.Errno) {
	why := f.readLostReason()
	if attr != whyAttr || why == "" {
		return 0, syscall.ENODATA
	}
	return copied(dest, why)
}

func (f *file) Listxattr(_ context.Context, dest []byte) (uint32, syscall.Errno) {
	if f.readLostReason() == "" {
		return 0, 0
	}
	return copied(dest, whyAttr+"\x00")
}

func copied(dest []byte, s string) (uint32, syscall.Errno) {
	if len(dest) > 0 && len(dest) < len(s) {
		return uint32(len(s)), syscall.ERANGE
	}
	copy(dest, s)
	return uint32(len(s)), 0
}
