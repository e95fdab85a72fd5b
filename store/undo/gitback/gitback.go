// Package gitback carries out a plan for a project's git directories. It first restores missing
// objects, and then the files that hold the state of the repository. It works through the
// mountpoint, as the user, and by git's own rules. Each file is locked while it is changed, and
// gets its new content in one step.
//
// Every file that it writes existed in this repository before and was saved in this project's state
// directory. It is restored only at the user's request.
package gitback

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"cachebro/store/leaf/gitdir"
	"cachebro/store/leaf/loop"
	"cachebro/store/leaf/text"
	"cachebro/store/wire"
)

// Result describes the outcome of a plan.
type Result struct {
	Done    []int           // indexes of the plan's steps that were carried out
	Objects int             // number of restored files of objects and packs
	Failed  []wire.Conflict // paths that were not changed
}

// patience is how long to wait for a lock that another git process holds.
const patience = 5 * time.Second

// ErrLocked means that a git process is running, or has died without removing its lock.
var ErrLocked = errors.New("a running git has it locked")

// ErrChanged means that a file is not as the plan expects.
var ErrChanged = errors.New("changed since the plan was made; try again")

type work struct {
	Place
	root  *os.Root
	locks []string
	owner map[string]owner // owner of each git directory, for new files in it
	res   Result
}

type owner struct{ uid, gid uint32 }

// Place is where a plan is carried out.
type Place struct {
	Base string   // the mountpoint
	Kept string   // directory of the saved copies
	Env  []string // environment of the git commands that list the existing objects
}

func (at Place) work() (*work, error) {
	root, err := os.OpenRoot(at.Base)
	if err != nil {
		return nil, fmt.Errorf("open the project: %w", err)
	}
	w := &work{Place: at, root: root, owner: map[string]owner{}}
	w.Env = slices.DeleteFunc(slices.Clone(at.Env), func(kv string) bool { return strings.HasPrefix(kv, "GIT_") })
	w.Env = append(w.Env, "GIT_OPTIONAL_LOCKS=0", "GIT_NO_LAZY_FETCH=1", "LC_ALL=C")
	return w, nil
}

// Plan carries out a plan. If a lock cannot be taken, or a file is not as the plan expects, it does
// nothing. After these checks it removes the repositories that the plan removes as a whole. Then it
// calls files, which undoes the changes to the project's own files and to the directories that
// contain a git directory. If files returns an error, Plan stops, unless goOn returns true for the
// error.
func (at Place) Plan(ctx context.Context, p wire.GitPlan, files func() error, goOn func(error) bool) (res Result, filesErr, err error) {
	w, err := at.work()
	if err != nil {
		return res, nil, err
	}
	defer w.root.Close()
	defer w.unlockAll()
	rest, late, err := w.prepare(ctx, p)
	if err != nil {
		return w.res, nil, err
	}
	unmade := wire.UnmadeDirs(rest)
	n := 0
	for ; n < len(rest) && rest[n].InUnmade(unmade); n++ {
		w.carryOut(ctx, p, len(p.Steps)-len(rest)+n, late[n])
	}
	filesErr = files()
	if filesErr != nil && !goOn(filesErr) {
		return w.res, filesErr, nil
	}
	for _, d := range p.Dirs {
		if err := w.objects(ctx, d, p.Since); err != nil {
			return w.res, filesErr, err
		}
	}
	missing := w.unreachable(ctx, rest[n:])
	for i := n; i < len(rest); i++ {
		if missing[string(rest[i].Path)] {
			w.failed(&rest[i], errors.New("the commit that it names is no longer stored"))
			continue
		}
		w.carryOut(ctx, p, len(p.Steps)-len(rest)+i, late[i])
	}
	return w.res, filesErr, ctx.Err()
}

// carryOut carries out step i of a plan. If late is set, the step's file is not locked yet.
func (w *work) carryOut(ctx context.Context, p wire.GitPlan, i int, late bool) {
	s := &p.Steps[i]
	err := ctx.Err()
	if err == nil && late {
		err = w.expect(ctx, s)
	}
	if err == nil {
		err = w.step(s)
	}
	if err != nil {
		w.failed(s, err)
		return
	}
	w.res.Done = append(w.res.Done, i)
}

func (w *work) failed(s *wire.GitStep, err error) {
	w.res.Failed = append(w.res.Failed, wire.Conflict{Path: s.Path, Why: err.Error()})
}

// prepare moves renamed directories back and takes the locks. late holds the steps whose directory
// is missing, so that no process can hold a lock in it.
func (w *work) prepare(ctx context.Context, p wire.GitPlan) (rest []wire.GitStep, late map[int]bool, err error) {
	for _, s := range p.Steps {
		name := string(s.Path)
		if s.Do == "rename" { // its present name may be any name
			name = string(s.To)
		}
		if err := w.allowed(name); err != nil {
			return nil, nil, err
		}
		if d, _, _ := gitdir.Split(name); s.Do == "write" || s.Do == "mkdir" {
			w.owner[d] = owner{s.UID, s.GID}
		}
	}
	for rest = p.Steps; len(rest) > 0 && rest[0].Do == "rename"; rest = rest[1:] {
		if err := w.step(&rest[0]); err != nil {
			return nil, nil, err
		}
		w.res.Done = append(w.res.Done, len(p.Steps)-len(rest))
	}
	late = map[int]bool{}
	for i := range rest {
		s := &rest[i]
		if s.Do != "write" && s.Do != "delete" && s.Do != "symlink" {
			continue
		}
		if fi, err := w.root.Lstat(path.Dir(string(s.Path))); err != nil || !fi.IsDir() {
			late[i] = true
		} else if err := w.expect(ctx, s); err != nil {
			return nil, nil, err
		}
	}
	return rest, late, nil
}

// expect locks the file that a step changes, and checks that the file is as the plan expects.
func (w *work) expect(ctx context.Context, s *wire.GitStep) error {
	if err := w.lock(ctx, string(s.Path)); err != nil {
		return err
	}
	if now, err := w.sum(string(s.Path)); err != nil || now != s.Now {
		return fmt.Errorf("%s: %w", s.Path, cmp.Or(err, ErrChanged))
	}
	return nil
}

// allowed returns an error for a path that is not git's own or that leads through a symlink.
func (w *work) allowed(p string) error {
	_, _, ok := gitdir.Split(p)
	if !ok || path.Clean(p) != p || strings.HasPrefix(p, "../") || path.IsAbs(p) {
		return fmt.Errorf("%q is not one of git's own files", p)
	}
	for at := path.Dir(p); at != "."; at = path.Dir(at) {
		if fi, err := w.root.Lstat(at); err == nil && fi.Mode()&fs.ModeSymlink != 0 {
			return fmt.Errorf("%s: %s is a symbolic link, and is not followed", p, at)
		}
	}
	return nil
}

// sum describes the present state of a path in the form that plans use.
func (w *work) sum(p string) (string, error) {
	fi, err := w.root.Lstat(p)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		return "absent", nil
	case err != nil:
		return "", err
	case fi.IsDir():
		return "dir", nil
	case fi.Mode()&fs.ModeSymlink != 0:
		to, err := w.root.Readlink(p)
		return "link " + to, err
	case !fi.Mode().IsRegular():
		return "", errors.New("neither file nor directory")
	}
	f, err := w.root.Open(p)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return text.HashReader(f)
}

const mark = "cachebro, pid "

// lock takes git's lock of a file. It takes over a lock left by a cachebro process that has ended.
func (w *work) lock(ctx context.Context, p string) error {
	name := p + ".lock"
	for end := time.Now().Add(patience); ; {
		if err := w.mkdir(path.Dir(p)); err != nil {
			return err
		}
		f, err := w.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		switch {
		case err == nil:
			_, err = fmt.Fprintf(f, "%s%d\n", mark, os.Getpid())
			w.locks = append(w.locks, name)
			return errors.Join(err, f.Close())
		case errors.Is(err, fs.ErrExist):
			if w.stale(name) {
				_ = w.root.Remove(name)
				continue
			}
		case !errors.Is(err, fs.ErrNotExist): // git has just removed a directory
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s: %w", name, ErrLocked)
		}
		if !loop.Pause(ctx, 20*time.Millisecond) {
			return ctx.Err()
		}
	}
}

func (w *work) stale(name string) bool {
	b, err := w.root.ReadFile(name)
	if err != nil {
		return false
	}
	s, ok := strings.CutPrefix(strings.TrimSpace(string(b)), mark)
	pid, perr := strconv.Atoi(s)
	return ok && perr == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

// unlock releases the lock of a path, if this plan holds it.
func (w *work) unlock(p string) {
	i := slices.Index(w.locks, p+".lock")
	if i < 0 {
		return
	}
	_ = w.root.Remove(w.locks[i])
	w.locks = slices.Delete(w.locks, i, i+1)
}

func (w *work) unlockAll() {
	for _, name := range w.locks {
		_ = w.root.Remove(name)
	}
	w.locks = nil
}

// mkdir creates a directory and its missing parents with the owner of the repository.
func (w *work) mkdir(p string) error {
	if p == "." {
		return nil
	}
	fi, err := w.root.Lstat(p)
	switch {
	case err == nil && fi.IsDir():
		return nil
	case err == nil:
		return &fs.PathError{Op: "mkdir", Path: p, Err: syscall.ENOTDIR}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := w.mkdir(path.Dir(p)); err != nil {
		return err
	}
	if err := w.root.Mkdir(p, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	d, _, _ := gitdir.Split(p)
	if o, ok := w.owner[d]; ok {
		w.setOwner(p, o)
	}
	return nil
}

// setOwner sets the owner of a path if this process is root. The project may belong to another
// user.
func (w *work) setOwner(p string, o owner) {
	if os.Geteuid() == 0 {
		_ = w.root.Lchown(p, int(o.uid), int(o.gid))
	}
}

// temporary returns a file name that git ignores.
func temporary(p string) string {
	return path.Join(path.Dir(p), fmt.Sprintf("tmp_cachebro_%d", os.Getpid()))
}

func (w *work) step(s *wire.GitStep) error {
	p := string(s.Path)
	switch s.Do {
	case "rename":
		if err := w.mkdir(path.Dir(string(s.To))); err != nil {
			return err
		}
		if _, err := w.root.Lstat(string(s.To)); err == nil {
			return fs.ErrExist
		}
		return w.root.Rename(p, string(s.To))
	case "mkdir":
		if err := w.mkdir(p); err != nil {
			return err
		}
		return w.setRights(p, s)
	case "chmod":
		fi, err := w.root.Lstat(p)
		if err != nil {
			return err
		}
		if fi.Mode()&fs.ModeSymlink != 0 {
			return ErrChanged
		}
		return w.setRights(p, s)
	case "rmdir":
		if err := w.root.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTEMPTY) {
			return err
		}
		return nil
	case "delete":
		if err := w.root.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		w.unlock(p) // the lock would keep its directory from being removed
		return nil
	case wire.GitUnmake:
		return w.unmake(p)
	case "symlink":
		tmp := temporary(p)
		_ = w.root.Remove(tmp)
		if err := w.root.Symlink(string(s.Target), tmp); err != nil {
			return err
		}
		return w.place(tmp, p)
	case "write":
		in, err := w.content(s)
		if err != nil {
			return err
		}
		defer in.Close()
		return w.write(p, in, s.Mode, owner{s.UID, s.GID})
	}
	return fmt.Errorf("this cachebro does not know the step %q", s.Do)
}

// unmake removes a git directory in which only objects and files that git can make again are left.
func (w *work) unmake(dir string) error {
	err := fs.WalkDir(w.root.FS(), dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		switch rest := strings.TrimPrefix(p, dir+"/"); {
		case path.Ext(rest) == ".lock":
			return fmt.Errorf("%s: %w", p, ErrLocked)
		case gitdir.KindOf(rest) == gitdir.State:
			return fmt.Errorf("it holds %s, which this undo does not remove", rest)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return w.root.RemoveAll(dir)
}

// setRights sets the mode and the owner that a step gives to a path.
func (w *work) setRights(p string, s *wire.GitStep) error {
	w.setOwner(p, owner{s.UID, s.GID})
	mode := fs.FileMode(s.Mode & 0o777)
	for bit, as := range map[uint32]fs.FileMode{0o1000: fs.ModeSticky, 0o2000: fs.ModeSetgid} {
		if s.Mode&bit != 0 {
			mode |= as
		}
	}
	return w.root.Chmod(p, mode)
}

func (w *work) content(s *wire.GitStep) (io.ReadCloser, error) {
	var in io.ReadCloser
	var err error
	switch {
	case s.Kept != "":
		if s.Kept != filepath.Base(s.Kept) {
			return nil, fs.ErrInvalid
		}
		in, err = os.Open(filepath.Join(w.Kept, gitdir.KeptFile(s.Kept)))
	case s.Here:
		in, err = w.root.Open(string(s.Path))
	default:
		in = io.NopCloser(strings.NewReader(string(s.Content)))
	}
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.LimitReader(in, s.Size), in}, nil
}

// write replaces the content of a path in one step.
func (w *work) write(p string, in io.Reader, mode uint32, o owner) error {
	if err := w.mkdir(path.Dir(p)); err != nil {
		return err
	}
	tmp := temporary(p)
	_ = w.root.Remove(tmp)
	out, err := w.root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err == nil && os.Geteuid() == 0 {
		err = out.Chown(int(o.uid), int(o.gid))
	}
	if err == nil {
		err = out.Chmod(fs.FileMode(mode & 0o777)) // set-id bits are never restored
	}
	err = errors.Join(err, out.Close())
	if err != nil {
		_ = w.root.Remove(tmp)
		return err
	}
	return w.place(tmp, p)
}

// place renames a finished file to its final name. The empty directory of a deleted branch with a
// longer name may be in the way.
func (w *work) place(tmp, p string) error {
	if fi, err := w.root.Lstat(p); err == nil && fi.IsDir() {
		_ = w.root.Remove(p)
	}
	err := w.root.Rename(tmp, p)
	if err != nil {
		_ = w.root.Remove(tmp)
	}
	return err
}
