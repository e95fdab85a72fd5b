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
	"cachebro/store/wire"

	"golang.org/x/sys/unix"
)

// places keeps the directories of a plan open, so that each step names its file
// relative to its own directory: walking a path from the root costs several round
// trips through the mount for each component. One goroutine uses it; any number may
// use the directories that it returns.
type places struct {
	root  *os.Root
	open  map[string]*os.Root
	owner map[*os.Root]*syscall.Stat_t
	lists sync.Map // *os.Root → whether what is made there inherits an access control list
	made  sync.Map // directories that the plan itself has made
	files sync.Map // *os.Root → *os.File of the same directory, for what Root does not offer
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

// of opens the directory that a path is in, and returns its last element. No
// part of the way may be a symlink: the plan was made for the directories
// themselves. Missing ones are made if make is set.
func (d *places) of(name string, make bool) (*os.Root, string, error) {
	dir, base := path.Dir(name), path.Base(name)
	if dir == "." {
		return d.root, base, nil
	}
	if r := d.open[dir]; r != nil {
		return r, base, nil
	}
	above, last, err := d.of(dir, make)
	if err != nil {
		return nil, "", err
	}
	fi, err := above.Lstat(last)
	if errors.Is(err, fs.ErrNotExist) && make {
		err = above.Mkdir(last, 0o777)
		if err == nil || errors.Is(err, fs.ErrExist) {
			fi, err = above.Lstat(last)
		}
	}
	if err != nil {
		return nil, "", err
	}
	if !fi.IsDir() {
		return nil, "", fmt.Errorf("%q is no directory: %w", dir, syscall.ENOTDIR)
	}
	r, err := above.OpenRoot(last)
	if err != nil {
		return nil, "", err
	}
	// A link that was put there meanwhile leads elsewhere in the project.
	is, err := r.Lstat(".")
	switch {
	case err == nil && !os.SameFile(fi, is):
		err = fmt.Errorf("%q is another directory: %w", dir, errChanged)
	case err == nil && !d.mine(dir) && gitdir.Is(r.Lstat):
		err = errGit
	}
	if err != nil {
		r.Close()
		return nil, "", err
	}
	d.open[dir] = r
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		d.owner[r] = st
	}
	return r, base, nil
}

// openIn opens what is there and follows no link: Root.OpenFile follows one within
// the root, whatever its flags say. It does not wait for the other end of a FIFO.
func openIn(root *os.Root, name string, flag int) (*os.File, error) {
	dir, err := root.Open(path.Dir(name))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	for {
		fd, err := unix.Openat(int(dir.Fd()), path.Base(name), flag|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err == nil {
			return os.NewFile(uintptr(fd), name), nil
		}
		if err != unix.EINTR {
			return nil, &fs.PathError{Op: "open", Path: name, Err: err}
		}
	}
}

// makeIn makes a file that is not there. Root.OpenFile would do, but for each file it
// asks the poller of the Go runtime to watch it, which a file of FUSE allows: five
// system calls and a woken thread for nothing.
func (d *places) makeIn(root *os.Root, name string, flag int, perm fs.FileMode) (*os.File, error) {
	dir, err := d.file(root)
	if err != nil {
		return nil, err
	}
	for {
		fd, err := unix.Openat(int(dir.Fd()), path.Base(name), flag|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, uint32(perm.Perm()))
		if err == nil {
			return os.NewFile(uintptr(fd), name), nil
		}
		if err != unix.EINTR {
			return nil, &fs.PathError{Op: "open", Path: name, Err: err}
		}
	}
}

// file is an open directory as a file.
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

// mine: the plan has made a directory. What looks like git's there it has brought back.
func (d *places) mine(dir string) bool {
	_, ok := d.made.Load(dir)
	return ok
}

// ownerOf is who owns an open directory, nil if unknown.
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

// between is called when nobody uses a directory. After a rename or removal the
// names lead elsewhere; and not too many may stay open.
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
