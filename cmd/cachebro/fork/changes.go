package fork

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"cachebro/cmd/cachebro/cli"
	"cachebro/store/leaf/gitdir"
	"cachebro/store/leaf/ignore"
	"cachebro/store/leaf/text"
	"cachebro/store/wire"

	"golang.org/x/sys/unix"
)

// file is a regular file, a link or a directory in one of the trees that type trees describes. A nil
// *file means that the path does not exist.
type file struct {
	mode   uint32 // type and permissions
	target string // where a link leads
	hash   string // of the content
	size   int64
	why    string // why the content is unknown; "" if it is known
	read   func() ([]byte, error)
}

func (f *file) link() bool { return f.mode&unix.S_IFMT == unix.S_IFLNK }
func (f *file) dir() bool  { return f != nil && f.mode&unix.S_IFMT == unix.S_IFDIR }

// same reports whether the two files are equal in type, mode and content.
func same(a, b *file) bool {
	if a == nil || b == nil {
		return a == b
	}
	if a.link() || b.link() {
		return a.link() && b.link() && a.target == b.target
	}
	if a.dir() || b.dir() {
		return a.mode == b.mode
	}
	return a.mode == b.mode && a.hash == b.hash && a.why == "" && b.why == ""
}

// change is a path that differs between a fork and the tree from which it was made.
type change struct {
	path     string
	old, new *file
}

// trees gives access to three trees: the project when the fork was made, the fork, and the project
// now.
type trees struct {
	c       *wire.Client // of the project's daemon
	f       fork
	rules   *ignore.Matcher // the fork's
	fork    *os.Root
	entries map[string]wire.PastEntry
	absent  map[string]bool // what the project had and the fork did not get
	filled  []change        // new directories that contain files, after changes has run
	// repositories holds the directories of the fork that contain a .git, without the fork's own,
	// after changes has run.
	repositories []string
}

func openTrees(ctx context.Context, e *cli.Env, f fork) (t *trees, err error) {
	t = &trees{f: f, entries: map[string]wire.PastEntry{}, absent: map[string]bool{}}
	for _, p := range f.from.Absent {
		t.absent[string(p)] = true
	}
	defer func() {
		if err != nil {
			t.close()
		}
	}()
	if !cli.IsDir(f.from.Root) {
		return t, cli.NothingDone(cli.Hintf("cachebro fork drop --force "+cli.Arg(f.Root)+" deletes the fork", "%s no longer exists, so its fork cannot be compared with it", cli.Quote(f.from.Root)))
	}
	t.c, err = e.Connect(ctx, f.from.Root)
	if err != nil {
		return t, fmt.Errorf("connect to the project %s: %w", cli.Quote(f.from.Root), err)
	}
	t.fork, err = os.OpenRoot(f.Base())
	if err != nil {
		return t, err
	}
	dir, err := os.Open(f.Base())
	if err != nil {
		return t, err
	}
	defer dir.Close()
	t.rules, err = ignore.New(dir, ignore.Options{ExcludesFile: e.ExcludesFile()})
	if err != nil {
		return t, err
	}
	return t, t.list(ctx, "")
}

func (t *trees) close() {
	if t.rules != nil {
		t.rules.Close()
	}
	if t.fork != nil {
		t.fork.Close()
	}
	t.c.Close()
}

// list reads the tree of the project as it was when the fork was made, without what the fork did not
// get.
func (t *trees) list(ctx context.Context, dir string) error {
	a, err := wire.Call[wire.PastAnswer](ctx, t.c, wire.MPast, wire.PastQuery{Seq: t.f.from.Seq, Path: []byte(dir)})
	if err != nil {
		return err
	}
	for _, e := range a.Entries {
		p := path.Join(dir, string(e.Name))
		if t.absent[p] {
			continue
		}
		if e.Mode&unix.S_IFMT == unix.S_IFDIR {
			if gitdir.Name(string(e.Name)) || t.rules.Class(p, true) != ignore.Tracked {
				continue
			}
			t.entries[p] = e
			if err := t.list(ctx, p); err != nil {
				return err
			}
			continue
		}
		t.entries[p] = e
	}
	return nil
}

// changes returns what was changed in the fork, sorted by path. It omits ignored files. It puts new
// directories that contain files into t.filled instead, because creating the files creates them.
func (t *trees) changes(ctx context.Context) ([]change, error) {
	top, err := t.readDir(".")
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	out, err := t.changesIn(ctx, "", top, seen)
	for p := range t.entries {
		if was := t.baseFile(p); !seen[p] && t.rules.Class(p, was.dir()) == ignore.Tracked {
			out = append(out, change{path: p, old: was})
		}
	}
	slices.SortFunc(out, func(a, b change) int { return strings.Compare(a.path, b.path) })
	slices.Sort(t.repositories)
	return out, err
}

// changesIn returns the changes of the fork's names in and below dir, and adds these names to seen.
func (t *trees) changesIn(ctx context.Context, dir string, names []fs.DirEntry, seen map[string]bool) (out []change, err error) {
	for _, d := range names {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		p := path.Join(dir, d.Name())
		if d.Name() == ".git" && dir != "" {
			t.repositories = append(t.repositories, dir)
		}
		if gitdir.Name(d.Name()) || t.rules.Class(p, d.IsDir()) != ignore.Tracked {
			continue
		}
		seen[p] = true
		ch, differs, err := t.compare(p)
		var inside []fs.DirEntry
		if err == nil && d.IsDir() {
			inside, err = t.readDir(p)
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", cli.Quote(p), err)
		}
		switch {
		case !differs:
		case ch.old == nil && len(inside) > 0:
			t.filled = append(t.filled, ch)
		default:
			out = append(out, ch)
		}
		below, err := t.changesIn(ctx, p, inside, seen)
		if err != nil {
			return nil, err
		}
		out = append(out, below...)
	}
	return out, nil
}

// readDir returns the names in a directory of the fork, and none if the directory was deleted.
// fs.ReadDir would accept only names in UTF-8.
func (t *trees) readDir(dir string) ([]fs.DirEntry, error) {
	f, err := t.fork.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.ReadDir(-1)
}

// baseFile returns what the fork had at a path when it was made, or nil if it had nothing.
func (t *trees) baseFile(p string) *file {
	e, ok := t.entries[p]
	if !ok {
		return nil
	}
	f := &file{mode: e.Mode & (unix.S_IFMT | 0o777), target: string(e.Target), hash: e.Hash, size: e.Size, why: e.Why}
	if e.Hash == "" && e.Why == "" && !f.link() && !f.dir() {
		f.hash = text.Hash(nil)
	}
	f.read = func() ([]byte, error) {
		if e.Why != "" {
			return nil, errors.New(e.Why)
		}
		if e.Hash == "" {
			return nil, nil
		}
		return t.c.Call(context.Background(), wire.MPastRead, wire.PastRead{Hash: e.Hash}, nil, nil)
	}
	return f
}

// compare compares one file or directory of the fork with its state when the fork was made.
func (t *trees) compare(p string) (ch change, differs bool, err error) {
	fi, err := t.fork.Lstat(p)
	if errors.Is(err, fs.ErrNotExist) {
		return ch, false, nil // deleted since the walk saw it
	}
	if err != nil {
		return ch, false, err
	}
	ch = change{path: p, old: t.baseFile(p)}
	if ch.old != nil && t.untouched(p, fi) {
		return ch, false, nil
	}
	ch.new, err = describeFile(t.fork, p)
	if err != nil {
		return ch, false, err
	}
	return ch, ch.new != nil && !same(ch.old, ch.new), nil
}

// untouched reports whether a regular file has not changed since the fork was made. The kernel sets the
// ctime at every change. The other attributes are compared because the clock may have been set back.
func (t *trees) untouched(p string, fi fs.FileInfo) bool {
	e := t.entries[p]
	if !fi.Mode().IsRegular() || modeOf(fi) != t.baseFile(p).mode {
		return false
	}
	if e.Size != fi.Size() || e.Mtime != fi.ModTime().UnixNano() {
		return false
	}
	var st unix.Stat_t
	err := unix.Lstat(filepath.Join(t.f.Base(), p), &st)
	return err == nil && st.Ctim.Nano() <= t.f.from.Made.UnixNano()
}

func modeOf(fi fs.FileInfo) uint32 {
	m := uint32(fi.Mode().Perm())
	switch fi.Mode().Type() {
	case 0:
		return m | unix.S_IFREG
	case fs.ModeSymlink:
		return m | unix.S_IFLNK
	case fs.ModeDir:
		return m | unix.S_IFDIR
	}
	return m
}

// describeFile describes the file at a path of a tree. It returns nil if there is none.
func describeFile(in *os.Root, p string) (*file, error) {
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		if fi, err := in.Lstat(dir); err == nil && fi.Mode()&fs.ModeSymlink != 0 {
			return nil, nil // a file behind the symlink has another path
		}
	}
	fi, err := in.Lstat(p)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	f := &file{mode: modeOf(fi), size: fi.Size()}
	switch fi.Mode().Type() {
	case fs.ModeSymlink:
		f.target, err = in.Readlink(p)
		return f, err
	case fs.ModeDir:
		return f, nil
	case 0:
	default:
		f.why = "it is neither a file, a link nor a directory"
		return f, nil
	}
	r, err := in.Open(p)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	f.hash, err = text.HashReader(r)
	f.read = func() ([]byte, error) { return in.ReadFile(p) }
	return f, err
}
