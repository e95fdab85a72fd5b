package apply

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"sync"
	"syscall"

	"cachebro/store/leaf/gitdir"
	"cachebro/store/leaf/loop"
	"cachebro/store/wire"

	"golang.org/x/sys/unix"
)

// places caches open directories of a plan. Each step accesses its file relative to the file's
// directory, because resolving a path from the root costs several round trips through the mount for
// each component. Only one goroutine may use places, but any number may use the directories that it
// returns.
type places struct {
	root  *os.Root
	open  map[string]*os.Root
	owner map[*os.Root]*syscall.Stat_t
	lists sync.Map // *os.Root → whether new files inherit an access control list
	made  sync.Map // directories that the plan has created
	files sync.Map // *os.Root → *os.File of the same directory, for operations that Root lacks
}

func newPlaces(root *os.Root, p *wire.Plan) *places {
	d := &places{root: root, open: map[string]*os.Root{}, owner: map[*os.Root]*syscall.Stat_t{}}
	for i := range p.Steps {
		if p.Resume && p.Steps[i].Do == "mkdir" {
			d.made.Store(string(p.Steps[i].Path), true)
		}
	}
	return d
}

// openParent opens the directory that contains a path, and returns the path's last element. If make
// is set, it creates missing directories. No directory of the path may be a symlink, because the
// plan was made for the directories themselves.
func (d *places) openParent(name string, make bool) (*os.Root, string, error) {
	dir, base := path.Dir(name), path.Base(name)
	if dir == "." {
		return d.root, base, nil
	}
	if r := d.open[dir]; r != nil {
		return r, base, nil
	}
	r, fi, err := d.enter(dir, make)
	if errors.Is(err, fs.ErrPermission) {
		r, fi, err = openBelow(d.root, dir)
	}
	if err != nil {
		return nil, "", err
	}
	if !d.madeByPlan(dir) && gitdir.Is(r.Lstat) {
		r.Close()
		return nil, "", errGit
	}
	d.open[dir] = r
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		d.owner[r] = st
	}
	return r, base, nil
}

// enter opens a directory by way of the directory above it, which this user must be able to read.
func (d *places) enter(dir string, make bool) (*os.Root, fs.FileInfo, error) {
	above, last, err := d.openParent(dir, make)
	if err != nil {
		return nil, nil, err
	}
	fi, err := above.Lstat(last)
	if errors.Is(err, fs.ErrNotExist) && make {
		err = above.Mkdir(last, 0o777)
		if err == nil || errors.Is(err, fs.ErrExist) {
			fi, err = above.Lstat(last)
		}
	}
	if err != nil {
		return nil, nil, err
	}
	if !fi.IsDir() {
		return nil, nil, fmt.Errorf("%q is no directory: %w", dir, syscall.ENOTDIR)
	}
	r, err := above.OpenRoot(last)
	if err != nil {
		return nil, nil, err
	}
	// A symlink created meanwhile may lead to another directory of the project.
	is, err := r.Lstat(".")
	if err == nil && !os.SameFile(fi, is) {
		err = fmt.Errorf("%q is another directory: %w", dir, errChanged)
	}
	if err != nil {
		r.Close()
		return nil, nil, err
	}
	return r, is, nil
}

// lstat returns the stat of a path of the plan.
func (d *places) lstat(name string) (fi fs.FileInfo, err error) {
	err = from(d.root, name, func(root *os.Root, name string) error {
		var err error
		fi, err = root.Lstat(name)
		return err
	})
	return fi, err
}

// from calls fn with a path and the directory to which it is relative. That is root, or the path's
// own directory if this user may not list a directory between them.
func from(root *os.Root, name string, fn func(*os.Root, string) error) error {
	err := fn(root, name)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	dir, _, err := openBelow(root, path.Dir(name))
	if err != nil {
		return err
	}
	defer dir.Close()
	return fn(dir, path.Base(name))
}

// openIn opens an existing file without following a link; Root.OpenFile follows links within the
// root regardless of its flags. openIn does not wait for the other end of a FIFO.
func openIn(root *os.Root, name string, flag int) (*os.File, error) {
	dir, err := root.Open(path.Dir(name))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return openAt(dir, name, flag|unix.O_NONBLOCK, 0)
}

// makeIn creates a file that does not exist. Root.OpenFile would register each file of FUSE with
// the poller of the Go runtime, which costs five needless system calls and a thread wake-up.
func (d *places) makeIn(root *os.Root, name string, flag int, perm fs.FileMode) (*os.File, error) {
	dir, err := d.file(root)
	if err != nil {
		return nil, err
	}
	return openAt(dir, name, flag|unix.O_CREAT|unix.O_EXCL, perm)
}

func openAt(dir *os.File, name string, flag int, perm fs.FileMode) (*os.File, error) {
	fd, err := loop.RetryValue(func() (int, error) {
		return unix.Openat(int(dir.Fd()), path.Base(name), flag|unix.O_NOFOLLOW|unix.O_CLOEXEC, uint32(perm.Perm()))
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// file returns an open directory as an *os.File.
func (d *places) file(root *os.Root) (*os.File, error) {
	if f, ok := d.files.Load(root); ok {
		return f.(*os.File), nil
	}
	f, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	if other, ok := d.files.LoadOrStore(root, f); ok {
		f.Close()
		return other.(*os.File), nil
	}
	return f, nil
}

// madeByPlan reports whether the plan has created a directory. Files in it that look like git's own
// were then restored by the plan.
func (d *places) madeByPlan(dir string) bool {
	_, ok := d.made.Load(dir)
	return ok
}

// ownerOf returns the stat of an open directory, which has its owner, or nil if unknown.
func (d *places) ownerOf(r *os.Root) *syscall.Stat_t {
	if st := d.owner[r]; st != nil || r != d.root {
		return st
	}
	if fi, err := r.Lstat("."); err == nil {
		if st, ok := fi.Sys().(*syscall.Stat_t); ok {
			d.owner[r] = st
			return st
		}
	}
	return nil
}

// between closes directories. No goroutine may be using one. If moved is set, names may refer to
// other directories now, so between closes all. Otherwise it only enforces maxOpen.
func (d *places) between(moved bool) {
	if moved || d.full() {
		d.forget()
	}
}

func (d *places) full() bool { return len(d.open) >= maxOpen }

func (d *places) forget() {
	for _, r := range d.open {
		r.Close()
	}
	d.files.Range(func(root, f any) bool {
		if root != d.root {
			f.(*os.File).Close()
			d.files.Delete(root)
		}
		return true
	})
	clear(d.open)
	clear(d.owner)
	d.lists.Clear()
}

func (d *places) close() {
	d.forget()
	if f, ok := d.files.Load(d.root); ok {
		f.(*os.File).Close()
	}
	d.root.Close()
}
