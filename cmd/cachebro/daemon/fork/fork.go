// Package fork fills an empty directory with the project's tree as of a moment, so that somebody
// else can work in the copy. The client passes the directory as a descriptor, so the daemon writes
// only where its client may write.
//
// The present tree is copied from the source directory, bypassing the mount. Disk blocks are shared
// if the file system supports that, and otherwise copied by the kernel. For an earlier moment,
// files that have not changed since are copied in the same way. The rest comes from the history.
// Files that git ignores are copied in their present state, if that is requested.
package fork

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"sync"

	"cachebro/cmd/cachebro/daemon/ingest"
	"cachebro/cmd/cachebro/daemon/source"
	"cachebro/cmd/cachebro/daemon/survey"
	"cachebro/store"
	"cachebro/store/leaf/gitdir"
	"cachebro/store/leaf/ignore"
	"cachebro/store/onwire"
	"cachebro/store/undo"
	"cachebro/store/wire"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// atOnce is how many directories are filled in parallel. Filling one mostly waits for the disk.
const atOnce = 4

// Service fills directories with the tree of the project at Root.
type Service struct {
	Root   string
	Store  *store.Store
	Source *source.Source
	Ingest *ingest.Ingester
	Survey *survey.Survey
}

// Handlers returns the handler of its request, by method.
func (s *Service) Handlers() map[string]wire.Handler {
	return map[string]wire.Handler{wire.MFork: s.fork}
}

func (s *Service) fork(ctx context.Context, r *wire.Request) (any, []byte, error) {
	if len(r.Files) != 1 {
		return nil, nil, wire.Errorf(wire.ErrBadRequest, "", "%s needs the descriptor of a directory", wire.MFork)
	}
	to := r.Files[0]
	defer to.Close()
	var q wire.ForkQuery
	if err := r.Decode(&q); err != nil {
		return nil, nil, err
	}
	if err := s.fits(to); err != nil {
		return nil, nil, err
	}
	if err := s.settle(ctx); err != nil {
		return nil, nil, err
	}
	now := s.Store.Seq()
	if q.Seq > now {
		return nil, nil, wire.Errorf(wire.ErrNotFound, "cachebro log shows the numbers", "there is no version %d", q.Seq)
	}
	f := filler{store: s.Store, plan: undo.Planner{Store: s.Store}, now: q.Seq == 0, ignored: q.Ignored, own: os.Geteuid() == 0}
	f.out.Seq = q.Seq
	if f.now {
		f.out.Seq = now
	}
	from, err := s.Source.Acquire(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer s.Source.Release(from)
	rules, err := s.Source.Rules(from)
	if err != nil {
		return nil, nil, err
	}
	defer rules.Close()
	// Close the directory to other users until it is complete. A user who may not read the project
	// must not be able to read the unfinished copy.
	top, err := source.StatOf(from.File)
	if err == nil {
		err = unix.Fchmod(int(to.Fd()), 0o700)
	}
	if err != nil {
		return nil, nil, f.failed("", err)
	}
	f.from, f.rules = from.File, rules
	f.linked = s.Source.Worktrees(ctx)
	f.group.SetLimit(atOnce)
	err = errors.Join(f.dir(ctx, "", to), f.group.Wait())
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err == nil {
		err = f.finish(entry{Entry: undo.Entry{Mode: top.Mode, UID: top.UID, GID: top.GID}, live: true}, to)
	}
	slices.SortFunc(f.out.Lost, func(a, b wire.ForkLost) int { return slices.Compare(a.Path, b.Path) })
	return f.out, nil, err
}

// Fill fills a directory with the tree that a history had at a moment. The directory must be empty,
// except perhaps for a .git. Fill copies nothing from a project.
func Fill(ctx context.Context, st *store.Store, seq uint64, to *os.File) (wire.ForkAnswer, error) {
	if err := empty(to); err != nil {
		return wire.ForkAnswer{Seq: seq}, err
	}
	f := filler{store: st, plan: undo.Planner{Store: st}, own: os.Geteuid() == 0}
	f.out.Seq = seq
	f.group.SetLimit(atOnce)
	err := errors.Join(f.dir(ctx, "", to), f.group.Wait())
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	slices.SortFunc(f.out.Lost, func(a, b wire.ForkLost) int { return slices.Compare(a.Path, b.Path) })
	return f.out, err
}

// fits checks that a directory is empty and not in the project. If the daemon wrote through its own
// project's mount, it would wait for itself.
func (s *Service) fits(to *os.File) error {
	fi, err := to.Stat()
	if err != nil {
		return err
	}
	if !fi.IsDir() {
		return wire.Errorf(wire.ErrBadRequest, "", "a fork is made in a directory")
	}
	if name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", to.Fd())); err == nil {
		for _, top := range []string{s.Root, s.Survey.Mountpoint()} {
			if _, in := onwire.Below(name, top); in && top != "" {
				return wire.Errorf(wire.ErrBadRequest, "name a directory next to it", "a fork cannot be inside its own project")
			}
		}
	}
	return empty(to)
}

func empty(to *os.File) error {
	names, err := to.Readdirnames(2)
	if err != nil && err != io.EOF {
		return err
	}
	for _, n := range names { // git may have prepared the directory
		if n != ".git" {
			return wire.Errorf(wire.ErrBadRequest, "name another one", "the directory is not empty")
		}
	}
	return nil
}

// settle makes sure that the log has everything that happened until now.
func (s *Service) settle(ctx context.Context) error {
	missing, err := s.Survey.LookAtAll(ctx)
	if err == nil && missing != "" {
		err = wire.Errorf(wire.ErrTimeout, "cachebro status", "%s", missing)
	}
	if err == nil {
		_, err = s.Ingest.CaughtUp(ctx, ingest.PlanWait, ingest.PlanStill)
	}
	return err
}

// entry is a file, directory or other name to make in the fork.
type entry struct {
	undo.Entry
	live   bool       // copied from the present tree, not from the history
	source store.Path // its present path in the project, if it is live
}

type filler struct {
	store   *store.Store
	plan    undo.Planner
	from    *os.File        // the source directory; nil if there is none
	rules   *ignore.Matcher // nil means that everything in the history is copied
	now     bool            // fork the tree as it is now
	ignored bool
	linked  []string // worktrees of the project's repository that are inside the project
	own     bool     // files get their original owners, because the daemon runs as root
	group   errgroup.Group

	mu  sync.Mutex // guards out
	out wire.ForkAnswer
}

// leaveOut notes that the fork does not get a path.
func (f *filler) leaveOut(p store.Path) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.out.Absent = append(f.out.Absent, onwire.Path(p))
}

func (f *filler) reportLost(p store.Path, why string) {
	f.leaveOut(p)
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.out.Lost) == wire.ForkLostMost {
		f.out.More++
		return
	}
	f.out.Lost = append(f.out.Lost, wire.ForkLost{Path: onwire.Path(p), Why: why})
}

func (f *filler) countFile(bytes, shared int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.out.Files++
	f.out.Bytes += bytes
	f.out.Shared += shared
}

// dir copies what the directory p contained as of the requested version into an open directory
// (to). If requested, it also copies the ignored files that are in the directory now. If the
// directory has moved, these are copied from its present path.
func (f *filler) dir(ctx context.Context, p store.Path, to *os.File) error {
	if f.now {
		return f.live(ctx, p, p, to, nil)
	}
	all, _, err := f.plan.List(p, f.out.Seq)
	if err != nil {
		return err
	}
	now := p
	if f.ignored && f.from != nil {
		at, there, err := f.plan.Now(p, f.out.Seq)
		if err != nil {
			return err
		}
		if there { // otherwise p may be another directory now
			now = at
		}
	}
	have := map[string]bool{}
	for _, e := range all {
		name := path.Base(string(e.Path))
		tracked := f.tracked(e.Path, e.Mode)
		if gitdir.Name(name) || slices.Contains(f.linked, string(e.Path)) || !f.ignored && !tracked {
			f.leaveOut(e.Path)
			continue
		}
		if e.Why != "" && !tracked && f.from != nil && f.isFile(now, name) {
			continue // copied in its present state
		}
		have[name] = true
		if err := f.entry(ctx, entry{Entry: e}, to, name); err != nil {
			return err
		}
	}
	if !f.ignored || f.from == nil {
		return nil
	}
	return f.live(ctx, p, now, to, have)
}

// isFile reports whether dir, a directory of the project, now contains an ignored regular file with
// this name.
func (f *filler) isFile(dir store.Path, name string) bool {
	q := store.Path(path.Join(string(dir), name))
	st, _, err := source.LstatBeneath(f.from, string(q))
	return err == nil && st.IsRegular() && !f.tracked(q, st.Mode)
}

// known reports whether the log has a path now.
func (f *filler) known(p store.Path) (found bool) {
	err := f.store.View(func(v *store.View) (err error) { _, found, err = v.Current(p); return err })
	return found || err != nil
}

func (f *filler) tracked(p store.Path, mode uint32) bool {
	return f.rules == nil || f.rules.Class(string(p), mode&unix.S_IFMT == unix.S_IFDIR) == ignore.Tracked
}

// live copies the present content of a directory to the directory p of the fork. now is the
// directory's present path in the project. For an earlier moment it copies only what git ignores
// and the history does not have.
func (f *filler) live(ctx context.Context, p, now store.Path, to *os.File, have map[string]bool) error {
	in, err := source.OpenBeneath(f.from, string(now), false)
	if err != nil {
		return nil // deleted during the copy
	}
	defer in.Close()
	names, err := in.Readdirnames(-1)
	if err != nil {
		f.reportLost(p, err.Error())
		return nil
	}
	slices.Sort(names)
	for _, name := range names {
		q := store.Path(path.Join(string(now), name))
		gitDir := now == "" && gitdir.Name(name)
		if have[name] || gitDir || store.OwnFile(q) {
			continue
		}
		if slices.Contains(f.linked, string(q)) {
			f.leaveOut(q)
			continue
		}
		st, target, err := source.LstatBeneath(f.from, string(q))
		if err != nil {
			continue // deleted during the copy
		}
		tracked := f.tracked(q, st.Mode)
		if tracked && !f.now {
			continue
		}
		if !tracked && !f.ignored {
			if st.IsDir() || f.known(q) {
				f.leaveOut(q)
			}
			continue
		}
		e := entry{live: true, source: q}
		e.Entry = undo.Entry{Path: store.Path(path.Join(string(p), name)), Mode: st.Mode, Size: st.Size, Mtime: st.Mtime, UID: st.UID, GID: st.GID, Target: target}
		if err := f.entry(ctx, e, to, name); err != nil {
			return err
		}
	}
	return nil
}

// entry creates e under the given name in the fork's directory in. It returns only errors of the
// fork's file system. A name that cannot be read from the project is reported as lost.
func (f *filler) entry(ctx context.Context, e entry, in *os.File, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	at := int(in.Fd())
	switch e.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		if err := unix.Mkdirat(at, name, 0o700); err != nil {
			return f.failed(e.Path, err)
		}
		fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return f.failed(e.Path, err)
		}
		sub := os.NewFile(uintptr(fd), name)
		fill := func() error {
			defer sub.Close()
			if err := f.dir(ctx, e.Path, sub); err != nil {
				return err
			}
			return f.finish(e, sub)
		}
		// The limit also bounds the open descriptors. Once it is reached, this goroutine fills the
		// directory itself.
		if !f.group.TryGo(fill) {
			return fill()
		}
		return nil
	case unix.S_IFLNK:
		if err := unix.Symlinkat(e.Target, at, name); err != nil {
			return f.failed(e.Path, err)
		}
		if f.own {
			_ = unix.Fchownat(at, name, int(e.UID), int(e.GID), unix.AT_SYMLINK_NOFOLLOW)
		}
		if e.Mtime != 0 {
			_ = setLinkMtime(at, name, e.Mtime) // few programs look at the time of a link
		}
		f.countFile(0, 0)
		return nil
	case unix.S_IFREG:
		return f.file(e, at, name)
	case unix.S_IFSOCK: // a socket is useless without its server
		f.leaveOut(e.Path)
		return nil
	}
	f.reportLost(e.Path, "it is not a file, directory or link")
	return nil
}

func (f *filler) file(e entry, at int, name string) error {
	live, err := f.open(e)
	switch {
	case live != nil:
		defer live.Close()
	case e.live && errors.Is(err, unix.ENOENT): // deleted during the copy
		return nil
	case e.live:
		f.reportLost(e.Path, err.Error())
		return nil
	case e.Why != "":
		f.reportLost(e.Path, e.Why)
		return nil
	}
	fd, err := unix.Openat(at, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return f.failed(e.Path, err)
	}
	to := os.NewFile(uintptr(fd), name)
	defer to.Close()
	var size, shared int64
	if live != nil {
		var all *os.File
		all, size, shared, err = copyFile(at, name, to, live)
		if all != to {
			defer all.Close()
			to = all
		}
	} else {
		var b []byte
		if e.Blob != (store.Hash{}) {
			b, err = f.store.Content(e.Blob)
		}
		if err != nil {
			f.reportLost(e.Path, err.Error())
			return unix.Unlinkat(at, name, 0)
		}
		size = int64(len(b))
		_, err = to.Write(b)
	}
	if errors.Is(err, errChanging) && !e.live {
		f.reportLost(e.Path, "it changed while it was being copied; make the fork again")
		return unix.Unlinkat(at, name, 0)
	}
	if err != nil && !errors.Is(err, errChanging) {
		return f.failed(e.Path, err)
	}
	f.countFile(size, shared)
	return f.finish(e, to)
}

// errChanging reports that a file was written while it was being copied.
var errChanging = errors.New("the file is being written")

const copyTries = 3

// copyFile copies a whole file. If the file changes during each of a few tries, copyFile returns
// errChanging and leaves a copy such as cp would make. all is to, or the file that replaced it.
func copyFile(at int, name string, to, from *os.File) (all *os.File, size, shared int64, err error) {
	all = to
	// Attributes are not copied, so they need not be read. That saves three system calls for each
	// small file.
	var before, after unix.Stat_t
	for try := range copyTries {
		if err := unix.Fstat(int(from.Fd()), &before); err != nil {
			return all, 0, 0, err
		}
		if try > 0 {
			if err := all.Truncate(0); err != nil {
				return all, 0, 0, err
			}
			for _, f := range []*os.File{from, all} {
				if _, err := f.Seek(0, io.SeekStart); err != nil {
					return all, 0, 0, err
				}
			}
		}
		if c := clone(at, name, all, from); c != nil {
			if all != c && all != to {
				all.Close()
			}
			all, shared = c, before.Size
		} else {
			shared = 0
			if before.Blocks*512 < before.Size {
				err = copySparse(all, from, before.Size)
			} else {
				_, err = io.Copy(all, from)
			}
			if err != nil {
				return all, 0, 0, err
			}
		}
		if err := unix.Fstat(int(from.Fd()), &after); err != nil {
			return all, 0, 0, err
		}
		size = after.Size
		if after.Ctim == before.Ctim && after.Size == before.Size {
			return all, size, shared, nil
		}
	}
	return all, size, shared, errChanging
}

// errOther reports that the path in the project is no longer the expected file.
var errOther = errors.New("it is no longer a regular file")

// open opens the project's own file. For an earlier moment it does so only if the file's ctime
// shows that it has not changed since. The kernel updates the ctime at every change.
func (f *filler) open(e entry) (*os.File, error) {
	if f.from == nil {
		return nil, errOther
	}
	var was store.Stat
	at := e.source
	if !e.live {
		at = e.Path
		var cur store.Version
		var found bool
		err := f.store.View(func(v *store.View) (err error) { cur, found, err = v.Current(e.Path); return err })
		if err != nil || !found || cur.Seq != e.Seq {
			return nil, errors.Join(err, errOther)
		}
		was = cur.Stat
	}
	in, err := source.OpenBeneath(f.from, string(at), false)
	if err != nil {
		return nil, err
	}
	st, err := source.StatOf(in)
	changed := st.Ctime != was.Ctime || st.Ino != was.Ino || st.Size != was.Size
	if err == nil && (!st.IsRegular() || !e.live && changed) {
		err = errOther
	}
	if err != nil {
		in.Close()
		return nil, err
	}
	return in, nil
}

// finish sets the owner, mode and time of a file or directory. It drops set-uid and set-gid bits,
// because a copy in another place must not give anybody more rights.
func (f *filler) finish(e entry, to *os.File) error {
	if f.own {
		if err := to.Chown(int(e.UID), int(e.GID)); err != nil && !errors.Is(err, unix.EPERM) {
			return f.failed(e.Path, err)
		}
	}
	mode := e.Mode & 0o777
	if e.Mode&unix.S_IFMT == unix.S_IFDIR {
		mode |= e.Mode & (unix.S_ISVTX | unix.S_ISGID)
	}
	if err := unix.Fchmod(int(to.Fd()), mode); err != nil {
		return f.failed(e.Path, err)
	}
	if e.Mtime != 0 {
		if err := setMtime(to, e.Mtime); err != nil {
			return f.failed(e.Path, err)
		}
	}
	return nil
}

func (f *filler) failed(p store.Path, err error) error {
	kind := wire.ErrInternal
	hint := ""
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		kind, hint = wire.ErrNoSpace, "free some space, or name a directory on a larger disk"
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM), errors.Is(err, unix.EROFS):
		kind = wire.ErrPermission
	}
	return wire.Errorf(kind, hint, "make %s in the fork: %v", onwire.Display(p), err)
}
