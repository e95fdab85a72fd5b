// Package gitback carries out a plan for a project's git directories: it puts missing
// objects back, then what says how the repository stands. It works below the mountpoint,
// as its user, and by git's own rules: each file has its lock while it is changed, and
// takes its new content in one step. It is at the serve end of observe → version → index
// → serve.
//
// What it writes ran or was read by git here before, was kept in this project's state
// directory, and is brought back because somebody asked for just that.
package gitback

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
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
	"cachebro/store/wire"
)

// Result says what was done.
type Result struct {
	Done    int             // steps
	Objects int             // files of objects and packs that were put back
	Failed  []wire.Conflict // nothing of these
}

// patience is how long another git that holds a lock is waited for.
const patience = 5 * time.Second

// ErrLocked: a git is at work, or one that died left its lock.
var ErrLocked = errors.New("a running git has it locked")

// ErrChanged: a file is not as the plan expects.
var ErrChanged = errors.New("changed since the plan was made; try again")

type work struct {
	Place
	root  *os.Root
	locks []string
	owner map[string]owner // of a git directory, for what must be made in it
	res   Result
}

type owner struct{ uid, gid uint32 }

// Place is where a plan is carried out.
type Place struct {
	Base string   // the mountpoint
	Kept string   // where what comes back lies
	Env  []string // of the git that is asked which objects are there
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

// Plan carries a plan out. Either all locks can be had and all files are as the plan
// expects, or nothing is done. files is called in between, to take back what was done to
// the project's own: the directories that a git directory is in are among them. After its
// error nothing more is done, unless goOn says so.
func (at Place) Plan(ctx context.Context, p wire.GitPlan, files func() error, goOn func(error) bool) (res Result, filesErr, err error) {
	w, err := at.work()
	if err != nil {
		return res, nil, err
	}
	defer w.root.Close()
	defer w.unlock()
	rest, late, err := w.prepare(ctx, p)
	if err != nil {
		return w.res, nil, err
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
	missing := w.unreachable(ctx, rest)
	for i := range rest {
		s := &rest[i]
		err := ctx.Err()
		if missing[string(s.Path)] {
			err = errors.New("what it names is not kept any more")
		} else if err == nil && late[i] {
			err = w.expect(ctx, s)
		}
		if err == nil {
			err = w.step(s)
		}
		if err != nil {
			w.res.Failed = append(w.res.Failed, wire.Conflict{Path: s.Path, Why: err.Error()})
			continue
		}
		w.res.Done++
	}
	return w.res, filesErr, ctx.Err()
}

// prepare brings back what was moved away, and takes the locks. late are the steps whose
// directory is not there: nobody can have a lock in it.
func (w *work) prepare(ctx context.Context, p wire.GitPlan) (rest []wire.GitStep, late map[int]bool, err error) {
	for _, s := range p.Steps {
		name := string(s.Path)
		if s.Do == "rename" { // what it was called since may be any name
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
		w.res.Done++
	}
	late = map[int]bool{}
	for i := range rest {
		s := &rest[i]
		if s.Do != "write" && s.Do != "delete" && s.Do != "link" {
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

// expect locks what a step changes, and sees whether it is as the plan expects.
func (w *work) expect(ctx context.Context, s *wire.GitStep) error {
	if err := w.lock(ctx, string(s.Path)); err != nil {
		return err
	}
	if now, err := w.sum(string(s.Path)); err != nil || now != s.Now {
		return fmt.Errorf("%s: %w", s.Path, cmp.Or(err, ErrChanged))
	}
	return nil
}

// allowed refuses paths that are not git's, and those that a symlink leads elsewhere.
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

// sum is what the plan calls what there is.
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
	s := sha256.New()
	if _, err := io.Copy(s, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(s.Sum(nil)), nil
}

const mark = "cachebro, pid "

// lock takes git's lock of a file. One that a cachebro left which is gone is taken over.
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
		case !errors.Is(err, fs.ErrNotExist): // a directory that git just removed
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s: %w", name, ErrLocked)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
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

func (w *work) unlock() {
	for _, name := range w.locks {
		_ = w.root.Remove(name)
	}
	w.locks = nil
}

// mkdir makes a directory and those above it, for the owner of the repository.
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
		w.give(p, o)
	}
	return nil
}

// give is for root, who works in the project of somebody else.
func (w *work) give(p string, o owner) {
	if os.Geteuid() == 0 {
		_ = w.root.Lchown(p, int(o.uid), int(o.gid))
	}
}

// temporary is a name that git takes for nothing.
func temporary(p string) string {
	return path.Join(path.Dir(p), fmt.Sprintf("tmp_cachebro_%d", os.Getpid()))
}

// step does one.
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
		w.give(p, owner{s.UID, s.GID})
		mode := fs.FileMode(s.Mode & 0o777)
		for bit, as := range map[uint32]fs.FileMode{0o1000: fs.ModeSticky, 0o2000: fs.ModeSetgid} {
			if s.Mode&bit != 0 {
				mode |= as
			}
		}
		return w.root.Chmod(p, mode)
	case "rmdir":
		if err := w.root.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTEMPTY) {
			return err
		}
		return nil
	case "delete":
		if err := w.root.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	case "link":
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
	return fmt.Errorf("a step of this program does not know: %q", s.Do)
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

// write gives a path a content in one step.
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
		err = out.Chmod(fs.FileMode(mode & 0o777)) // no set-id bits come back
	}
	err = errors.Join(err, out.Close())
	if err != nil {
		_ = w.root.Remove(tmp)
		return err
	}
	return w.place(tmp, p)
}

// place gives what is finished its name. An empty directory may be in the way, of a
// branch with a longer name.
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
