package fork

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
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
	filled  []change // new directories that contain files, after changes has run
}

func openTrees(ctx context.Context, e *cli.Env, f fork) (t *trees, err error) {
	t = &trees{f: f, entries: map[string]wire.PastEntry{}}
	defer func() {
		if err != nil {
			t.close()
		}
	}()
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

// list reads the tree of the project as it was when the fork was made.
func (t *trees) list(ctx context.Context, dir string) error {
	a, err := wire.Call[wire.PastAnswer](ctx, t.c, wire.MPast, wire.PastQuery{Seq: t.f.from.Seq, Path: []byte(dir)})
	if err != nil {
		return err
	}
	for _, e := range a.Entries {
		p := path.Join(dir, string(e.Name))
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
func (t *trees) changes(ctx context.Context) (out []change, err error) {
	seen := map[string]bool{}
	err = fs.WalkDir(t.fork.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, fs.ErrNotExist): // deleted during the walk
			return nil
		case err != nil:
			return err
		case p == ".":
			return nil
		case d.IsDir():
			if gitdir.Name(d.Name()) || t.rules.Class(p, true) != ignore.Tracked {
				return fs.SkipDir
			}
			seen[p] = true
			fi, err := d.Info()
			if err != nil {
				return fs.SkipDir // deleted during the walk
			}
			ch := change{path: p, old: t.baseFile(p), new: &file{mode: modeOf(fi)}}
			if same(ch.old, ch.new) {
				return nil
			}
			if inside, err := fs.ReadDir(t.fork.FS(), p); ch.old == nil && err == nil && len(inside) > 0 {
				t.filled = append(t.filled, ch)
				return nil
			}
			out = append(out, ch)
			return nil
		case gitdir.Name(d.Name()) || t.rules.Class(p, false) != ignore.Tracked:
			return nil
		}
		seen[p] = true
		ch, differs, err := t.compare(p)
		if err != nil {
			return fmt.Errorf("read %s: %w", cli.Quote(p), err)
		}
		if differs {
			out = append(out, ch)
		}
		return nil
	})
	for p := range t.entries {
		if was := t.baseFile(p); !seen[p] && t.rules.Class(p, was.dir()) == ignore.Tracked {
			out = append(out, change{path: p, old: was})
		}
	}
	slices.SortFunc(out, func(a, b change) int { return strings.Compare(a.path, b.path) })
	return out, err
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

// compare compares one file of the fork with its state when the fork was made.
func (t *trees) compare(p string) (ch change, differs bool, err error) {
	fi, err := t.fork.Lstat(p)
	if errors.Is(err, fs.ErrNotExist) {
		return ch, false, nil // deleted since the walk saw it
	}
	if err != nil {
		return ch, false, err
	}
	ch = change{path: p, old: t.baseFile(p)}
	e, ok := t.entries[p]
	sameStat := e.Size == fi.Size() && e.Mtime == fi.ModTime().UnixNano() && ch.old.mode == modeOf(fi)
	if ok && fi.Mode().IsRegular() && sameStat {
		return ch, false, nil // unchanged since the fork was made
	}
	ch.new, err = describeFile(t.fork, p)
	if err != nil {
		return ch, false, err
	}
	return ch, ch.new != nil && !same(ch.old, ch.new), nil
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
