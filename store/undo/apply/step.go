package apply

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"

	"cachebro/store/leaf/gitdir"
	"cachebro/store/leaf/text"
	"cachebro/store/undo/displace"
	"cachebro/store/wire"

	"golang.org/x/sys/unix"
)

// worker carries out one step. root is the directory of the step's file, and name the file's name
// in it.
type worker struct {
	execution *execution
	step      *wire.PlanStep
	plan      *wire.Plan
	places    *places
	root      *os.Root
	name      string
	owned     *syscall.Stat_t // stat of root, for its owner

	held      *displace.Held // the file to be displaced; nil if no process could write to it
	displaced *displace.Displaced
	prepared  bool     // the file was announced to the mount, and mknod(2) creates it with its content
	inPlace   bool     // write in place, although the file is open for writing
	left      []string // properties that could not be restored although the step was done
}

// locate opens the directory of the step's path. It creates missing directories only for a step
// that creates a file.
func (w *worker) locate() error {
	if ofRoot(w.step) {
		w.root, w.name = w.places.root, "."
		return nil
	}
	name := string(w.step.Path)
	for _, p := range []string{name, string(w.step.To)} {
		switch to := w.step.Do == "rename" || w.step.Do == "exchange" || w.step.Do == "link"; {
		case p == "" && !to && name != "":
		case !valid(p):
			return errors.New("the plan contains a path that cannot exist")
		case gitdir.In(p):
			return errGit
		}
	}
	making := w.step.Expect == "" || w.step.Expect == "absent"
	switch w.step.Do {
	case "write", "symlink", "mkdir", "link":
	default:
		making = false
	}
	var err error
	w.root, w.name, err = w.places.openParent(name, making)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("is gone: %w", errChanged)
		}
		return err
	}
	if os.Geteuid() == 0 {
		w.owned = w.places.ownerOf(w.root)
	}
	return nil
}

// errGit means that the path is in a git directory. The next git command may run files in it, so a
// plan never writes there.
var errGit = errors.New("belongs to git, which keeps its own history")

// valid reports whether a name stays in the project. The name need not be UTF-8.
func valid(name string) bool {
	return filepath.IsLocal(name) && path.Clean(name) == name && name != "."
}

// direct reports whether the step writes a small file that must not exist. Such a file is written
// under its own name, which fails if a file exists. A killed process can leave only the beginning
// of its content. Large files are renamed into place, because writing them may take long.
func (w *worker) direct() bool {
	return w.step.Do == "write" && w.step.Expect == "absent" && w.step.Size <= 1<<20
}

func (w *worker) do(content func() ([]byte, error)) error {
	var changed error
	if !w.direct() {
		changed = w.expect()
		if changed != nil && !w.filled() {
			return changed
		}
	}
	if w.plan.Resume { // a killed process may have begun the step
		_ = w.root.Remove(w.temporary())
	}
	switch w.step.Do {
	case "write":
		b, err := content()
		if err != nil {
			return err
		}
		if w.step.Hash != "" && text.Hash(b) != w.step.Hash {
			return errors.New("the stored content does not match the hash in the plan")
		}
		if changed != nil && !w.begun(b, true) {
			return changed
		}
		if err := w.withLog(b); err != nil {
			return err
		}
		if w.direct() {
			return w.create(b)
		}
		return w.write(b)
	case "delete":
		return w.remove()
	case "rmdir":
		if fi, err := w.root.Lstat(w.name); err != nil || !fi.IsDir() {
			return errors.Join(err, errChanged)
		}
		return w.root.Remove(w.name)
	case "mkdir":
		return w.mkdir()
	case "rename":
		return w.rename()
	case "exchange":
		return w.exchange()
	case "symlink":
		return w.symlink()
	case "chmod":
		return w.chmod()
	case "link":
		return w.link()
	}
	return fmt.Errorf("this cachebro does not know the step %q", w.step.Do)
}

// expect compares the present file with what the plan expects.
func (w *worker) expect() error {
	if w.step.Do == "rename" && w.step.Expect == "absent" {
		return nil // the expectation concerns the destination
	}
	anything := w.step.Expect == "" && w.step.ExpMode == 0
	if anything && !w.displaces() {
		return nil
	}
	fi, err := w.root.Lstat(w.name)
	if err == nil {
		if err := w.hold(fi); err != nil {
			return err
		}
	}
	switch {
	case anything:
		return nil
	case w.step.Expect == "" && err == nil: // a file without content is recognised by its kind
		if kind := w.step.ExpMode & syscall.S_IFMT; kind != 0 && kind != kindOf(fi) {
			return fmt.Errorf("is something else: %w", errChanged)
		}
		moves := w.step.Do == "rename" || w.step.Do == "exchange"
		changed := fi.Size() != w.step.Size || fi.ModTime().UnixNano() != w.step.Mtime
		if moves && w.step.Mtime != 0 && changed {
			return errChanged
		}
		return nil
	case w.step.Expect == "absent" && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)):
		return nil
	case w.step.Do == "mkdir" && w.plan.Resume && err == nil && fi.IsDir():
		return nil // possibly created, but without its mode yet
	case w.step.Expect == "absent" && err == nil:
		return fmt.Errorf("exists again: %w", errChanged)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("is gone: %w", errChanged)
	case err != nil:
		return err
	}
	if kind := w.step.ExpMode & syscall.S_IFMT; kind != 0 && kind != kindOf(fi) {
		return fmt.Errorf("is something else: %w", errChanged)
	}
	if w.step.ExpMode != 0 && fi.Mode()&fs.ModeSymlink == 0 && w.step.ExpMode&^uint32(syscall.S_IFMT) != perm(fi) {
		return fmt.Errorf("has another mode: %w", errChanged)
	}
	have, err := w.hash(fi)
	modeOnly := w.step.Do == "chmod" && w.step.Mtime == 0 && w.step.Mode&(syscall.S_ISUID|syscall.S_ISGID) == 0
	if modeOnly && errors.Is(err, fs.ErrPermission) {
		return nil // a former mode makes it readable again, and gives no rights to an unknown content
	}
	if err == nil && have != w.step.Expect {
		err = errChanged
	}
	return err
}

// hash returns the hash of a file's content, or of a symlink's target.
func (w *worker) hash(fi fs.FileInfo) (string, error) {
	switch {
	case fi.Mode()&fs.ModeSymlink != 0:
		target, err := w.root.Readlink(w.name)
		return text.Hash([]byte(target)), err
	case !fi.Mode().IsRegular():
		return "", fmt.Errorf("is not a file any more: %w", errChanged)
	}
	if w.held != nil {
		return text.HashReader(io.NewSectionReader(w.held.File(), 0, 1<<62))
	}
	f, err := openIn(w.root, w.name, os.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return text.HashReader(f)
}

// resultExists reports whether the result of the step, or of a later step for the same path, already
// exists. It is used for a resumed plan, because the journal may lack the last steps.
func (w *worker) resultExists() bool {
	if w.root == nil {
		return w.step.Do == "delete" || w.step.Do == "rmdir" // its directory does not exist either
	}
	for i := range w.plan.Steps {
		if s := &w.plan.Steps[i]; s.N >= w.step.N && string(s.Path) == string(w.step.Path) {
			later := *w
			later.step = s
			if later.isSo() {
				return true
			}
		}
	}
	return false
}

func (w *worker) isSo() bool {
	fi, err := w.root.Lstat(w.name)
	gone := errors.Is(err, fs.ErrNotExist)
	if err != nil && !gone {
		return false
	}
	switch w.step.Do {
	case "delete", "rmdir":
		return gone
	case "rename", "exchange":
		to, err := w.places.lstat(string(w.step.To))
		switch {
		case err != nil:
			return false
		case w.step.Ino != 0:
			return sameInode(to, w.step.Ino)
		case w.step.Do == "rename":
			return gone
		}
		return !gone && fi.IsDir() && kindOf(to) == w.step.ExpMode&syscall.S_IFMT
	}
	if err != nil {
		return false
	}
	switch w.step.Do {
	case "write":
		have, err := w.hash(fi)
		return err == nil && have == w.step.Hash && (w.step.Mode == 0 || perm(fi)&0o777 == w.step.Mode&0o777)
	case "mkdir":
		return fi.IsDir()
	case "symlink":
		target, err := w.root.Readlink(w.name)
		return err == nil && target == string(w.step.Target)
	case "chmod":
		return perm(fi)&0o1777 == w.step.Mode&0o1777 && (w.step.Mtime == 0 || fi.ModTime().UnixNano() == w.step.Mtime)
	case "link":
		to, err := w.places.lstat(string(w.step.To))
		return err == nil && os.SameFile(fi, to)
	}
	return false
}

// rename renames the step's path to its destination, which must not exist.
func (w *worker) rename() error {
	to, name, err := w.places.openParent(string(w.step.To), true)
	if err != nil {
		return err
	}
	if _, err := to.Lstat(name); err == nil {
		return fmt.Errorf("%q exists: %w", w.step.To, errChanged)
	}
	// Use the opened directories, because a symlink may have replaced a directory of the path.
	from, err := w.places.file(w.root)
	if err != nil {
		return err
	}
	dir, err := w.places.file(to)
	if err != nil {
		return err
	}
	return unix.Renameat(int(from.Fd()), w.name, int(dir.Fd()), name)
}

// exchange swaps the two names. It recognises directories by their inode numbers, because a resumed
// plan must not swap them again.
func (w *worker) exchange() error {
	fi, err := w.root.Lstat(w.name)
	if err != nil {
		return err
	}
	to, name, err := w.places.openParent(string(w.step.To), false)
	if err != nil {
		return err
	}
	other, err := to.Lstat(name)
	switch {
	case err != nil:
		return err
	case !other.IsDir():
		return fmt.Errorf("%q is no directory: %w", w.step.To, errChanged)
	case w.step.Ino != 0 && !sameInode(fi, w.step.Ino):
		return fmt.Errorf("is another directory: %w", errChanged)
	}
	from, err := w.places.file(w.root)
	if err != nil {
		return err
	}
	dir, err := w.places.file(to)
	if err != nil {
		return err
	}
	return displace.Exchange(from, w.name, dir, name)
}

// link makes the path a name of another file. The path may already be a name of that file, which
// was written under its other name. Then the step only checks that both are names of one file. If
// not, somebody has changed the file.
func (w *worker) link() error {
	if w.isSo() {
		return nil
	}
	if w.step.Expect == "" {
		return fmt.Errorf("is no longer the same file as %q: %w", w.step.To, errChanged)
	}
	to, name, err := w.places.openParent(string(w.step.To), false)
	if err != nil {
		return err
	}
	fi, err := to.Lstat(name)
	if err != nil {
		return err
	}
	if w.step.Hash != "" {
		other := worker{root: to, name: name}
		if have, err := other.hash(fi); err != nil || have != w.step.Hash {
			return errors.Join(err, fmt.Errorf("%q, the file's other name: %w", w.step.To, errChanged))
		}
	}
	from, err := w.places.file(to)
	if err != nil {
		return err
	}
	dir, err := w.places.file(w.root)
	if err != nil {
		return err
	}
	if w.step.Expect == "absent" {
		return unix.Linkat(int(from.Fd()), name, int(dir.Fd()), w.name, 0)
	}
	if err := unix.Linkat(int(from.Fd()), name, int(dir.Fd()), w.temporary(), 0); err != nil {
		return err
	}
	if err := w.replace(w.temporary()); err != nil {
		_ = w.root.Remove(w.temporary())
		return err
	}
	return nil
}

func (w *worker) mkdir() error {
	if fi, err := w.root.Lstat(w.name); err == nil && fi.IsDir() {
		if !w.plan.Resume {
			return nil // the wanted state already exists
		}
	} else if err := w.root.Mkdir(w.name, 0o700); err != nil {
		return err
	}
	w.places.made.Store(string(w.step.Path), true)
	return w.opened(func(f *os.File, fi fs.FileInfo) error {
		if !fi.IsDir() {
			return errChanged
		}
		h, err := w.setOwner(f, fi, nil, true)
		if err != nil {
			return err
		}
		set, known := w.wanted(false)
		w.attributes(f, set, known, false)
		m := fs.FileMode(0o755)
		if w.step.Mode != 0 {
			m = w.allowedMode(h, mode(w.step.Mode))
		}
		return f.Chmod(m)
	})
}

func (w *worker) symlink() error {
	tmp := w.temporary()
	if err := w.root.Symlink(string(w.step.Target), tmp); err != nil {
		return err
	}
	if uid, gid, ok := w.ownerToSet(nil); ok { // the link may have inherited the directory's group
		_ = w.root.Lchown(tmp, uid, gid) // the owner of a link rarely matters
	}
	if w.step.Mtime != 0 {
		if err := w.places.setLinkMtime(w.root, tmp, w.step.Mtime); err != nil {
			_ = w.root.Remove(tmp)
			return err
		}
	}
	if err := w.replace(tmp); err != nil {
		_ = w.root.Remove(tmp)
		return err
	}
	return nil
}
