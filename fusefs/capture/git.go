package capture

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"cachebro/fusefs"
	"cachebro/store/leaf/event"
	"cachebro/store/leaf/gitdir"
	"cachebro/store/leaf/limits"
	"cachebro/store/leaf/spool"

	"golang.org/x/sys/unix"
)

// gitKeeper saves files of git directories that git replaces or removes. Git hardly ever overwrites
// a file in place, so a hard link in the state directory is enough, and no content is copied. If a
// process changes a path repeatedly, only the first state is saved: a rebase counts as one change.
type gitKeeper struct {
	dir string // "" means that nothing is saved

	// mu guards the fields below.
	mu          sync.Mutex
	last        map[string]gitTouch // by path
	n           uint64              // number of the file saved last
	gapReported time.Time           // when a gap was last reported
	stamp       string              // identifies this process in the names of kept files
}

// gitTouch describes the last change of a path by a process.
type gitTouch struct {
	by                    procKey
	changedAt, recordedAt time.Time
	begin                 bool // the process only appends, so just the old length is recorded
	removed               bool // the last record says that the path was removed
}

const (
	gitInline    = 4 << 10 // content up to this size goes into the record
	gitCopied    = 8 << 20 // a file that is overwritten is copied up to this size
	gitContinues = 2 * time.Second
	gitRepeat    = gitContinues / 4 // how often another record says that a process is still changing a path
	gitTouches   = 10_000
)

func newGitKeeper(dir string) *gitKeeper {
	return &gitKeeper{dir: dir, last: map[string]gitTouch{}, stamp: fmt.Sprintf("%x-%x", time.Now().Unix(), os.Getpid())}
}

// place splits a path into a git directory of the project and the rest, and returns the kind of
// file that the path leads to.
func (g *gitKeeper) place(p string) (dir, rest string, kind gitdir.Kind) {
	if g.dir == "" {
		return "", "", gitdir.Nothing
	}
	dir, rest, ok := gitdir.Split(p)
	if !ok {
		return "", "", gitdir.Nothing
	}
	if rest == "" {
		return dir, rest, gitdir.State // a .git file that points to a directory elsewhere
	}
	return dir, rest, gitdir.KindOf(rest)
}

// continuesChange notes that a process changes a path. same is true if the state from before this
// process is already saved. tell is true if another record should say that the process is still
// changing the path.
func (g *gitKeeper) continuesChange(p string, by fusefs.Caller, appends, gone bool) (same, tell bool) {
	key, now := procKey{pid: by.PID}, time.Now()
	if by.Proc != nil {
		key = procKey{by.Proc.PID, by.Proc.Start}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	t, ok := g.last[p]
	if !ok && len(g.last) >= gitTouches {
		clear(g.last)
	}
	continues := key.pid != 0 && t.by == key && now.Sub(t.changedAt) < gitContinues
	same = ok && continues && (!t.begin || appends)
	tell = !same || now.Sub(t.recordedAt) > gitRepeat || gone != t.removed
	n := gitTouch{by: key, changedAt: now, recordedAt: t.recordedAt, begin: appends && (!same || t.begin), removed: gone}
	if tell {
		n.recordedAt = now
	}
	g.last[p] = n
	return same, tell
}

// gitBefore saves content that a git directory is about to lose.
func (c *Capture) gitBefore(ch fusefs.Change, p string, vanishes bool) {
	dir, rest, kind := c.git.place(p)
	switch kind {
	case gitdir.Objects:
		if vanishes {
			name := filepath.Join(gitdir.KeptObjects(dir), strings.TrimPrefix(rest, "objects/"))
			if why := c.gitKeep(ch.File, name, -1); why != nil {
				c.gitGap(p, why)
			}
			all := dir + "/objects"
			if same, _ := c.git.continuesChange(all, ch.Caller, false, false); !same {
				c.appendBy(ch.Caller, &spool.Record{Kind: spool.KindGit, Op: ch.Op, Path: all, Was: spool.WasObjects, Time: time.Now().UnixNano()})
			}
		}
	case gitdir.State:
		r := &spool.Record{Kind: spool.KindGit, Op: ch.Op, Path: p, Time: time.Now().UnixNano()}
		switch same, tell := c.git.continuesChange(p, ch.Caller, ch.Append, ch.Op == event.OpUnlink); {
		case same && tell:
			r.Was = spool.WasSame
		case same || !c.gitSavePresent(ch, r, vanishes):
			return
		}
		c.appendBy(ch.Caller, r)
	}
}

// gitSavePresent saves the present state of a file and describes it in r. It returns false if the
// file cannot be read or is not regular.
func (c *Capture) gitSavePresent(ch fusefs.Change, r *spool.Record, vanishes bool) bool {
	st, err := ch.File.Stat()
	if err != nil || !st.IsRegular() {
		return false
	}
	r.Stat = st
	lost := func(why error) {
		r.Was, r.Reason = spool.WasLost, why.Error()
	}
	switch {
	case ch.Append && !vanishes:
		r.Was, r.Len = spool.WasBegin, st.Size
	case st.Size <= gitInline:
		b, err := gitRead(ch.File, st.Size)
		r.Was, r.Before = spool.WasInline, b
		if err != nil {
			lost(err)
		}
	default:
		size := st.Size
		if vanishes && st.Nlink <= 1 {
			size = -1
		}
		c.git.mu.Lock()
		c.git.n++
		name := fmt.Sprintf("%s-%x", c.git.stamp, c.git.n)
		c.git.mu.Unlock()
		r.Was, r.Before = spool.WasKept, []byte(name)
		if why := c.gitKeep(ch.File, gitdir.KeptFile(name), size); why != nil {
			r.Before = nil
			lost(why)
			c.gitGap(r.Path, why)
		}
	}
	return true
}

func gitRead(f fusefs.File, size int64) ([]byte, error) {
	in, err := openFile(f)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	b := make([]byte, size)
	n, err := io.ReadFull(in, b)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		err = nil
	}
	return b[:n], err
}

// gitKeep saves a file by making a hard link in the keeper's directory. If size ≥ 0, gitKeep copies
// the file instead, because it may be overwritten in place.
func (c *Capture) gitKeep(f fusefs.File, name string, size int64) error {
	to := filepath.Join(c.git.dir, name)
	if size < 0 {
		link := func() error {
			return f.At(func(path string) error { return linkFollow(path, to) })
		}
		err := link()
		if errors.Is(err, syscall.ENOENT) {
			err = os.MkdirAll(filepath.Dir(to), 0o700)
			if err == nil {
				err = link()
			}
		}
		if errors.Is(err, syscall.EEXIST) {
			_ = os.Remove(to) // replace the earlier link, so that the kept file has the time of the newest loss
			err = link()
		}
		if err == nil {
			return nil
		}
		st, serr := f.Stat()
		if serr != nil {
			return err
		}
		size = st.Size
		if size > limits.GitAcross {
			return fmt.Errorf("it is large, and cannot be linked: %w", err)
		}
	} else if size > gitCopied {
		return fmt.Errorf("it was overwritten in place, and is too large to copy (%d bytes)", size)
	}
	if !c.spend(size, c.opt.IgnoredHourly) {
		return errors.New("the hourly budget for copies is spent")
	}
	if err := c.roomy(); err != nil {
		return err
	}
	return gitCopy(f, to)
}

func gitCopy(f fusefs.File, to string) error {
	in, err := openFile(f)
	if err != nil {
		return err
	}
	defer in.Close()
	fi, err := in.Stat()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	_ = os.Remove(to)
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if st, ok := fi.Sys().(*syscall.Stat_t); ok && err == nil { // a kept object must have the original's owner
		_ = out.Chown(int(st.Uid), int(st.Gid)) // only root can set the owner
		err = out.Chmod(fi.Mode().Perm())
	}
	err = errors.Join(err, out.Close())
	if err != nil {
		_ = os.Remove(to)
	}
	return err
}

// gitGap reports, at most once a minute, that one of git's files could not be saved.
func (c *Capture) gitGap(p string, why error) {
	c.git.mu.Lock()
	report := time.Since(c.git.gapReported) > time.Minute
	if report {
		c.git.gapReported = time.Now()
	}
	c.git.mu.Unlock()
	if report {
		c.gap(p, 0, "one of git's own files: "+why.Error())
	}
}

// gitDone records changes for which Before is not called: new names, and changes of anything except
// regular files.
func (c *Capture) gitDone(e fusefs.Event) {
	dir, rest, kind := c.git.place(e.Path)
	stateDir := kind == gitdir.State && !strings.HasPrefix(rest, "objects") // e.Path is recorded if it is a directory
	record := func(p string, r spool.Record) {
		if r.Was != spool.WasMoved {
			same, tell := c.git.continuesChange(p, e.Caller, e.Op == event.OpChmod, e.Op == event.OpUnlink || e.Op == event.OpRmdir)
			if same && !tell {
				return
			}
			if same {
				r = spool.Record{Was: spool.WasSame}
			}
		}
		r.Kind, r.Op = spool.KindGit, e.Op
		r.Path, r.Time = p, e.Time.UnixNano()
		c.appendBy(e.Caller, &r)
	}
	switch e.Op {
	case event.OpCreate, event.OpSymlink:
		if kind == gitdir.State {
			record(e.Path, spool.Record{Was: spool.WasAbsent})
		}
	case event.OpMkdir:
		if stateDir {
			record(e.Path, spool.Record{Was: spool.WasAbsent})
		}
	case event.OpChmod:
		switch {
		case dir == "" || e.Was.Mode == 0 || sameRights(e.Was, e.Stat):
		case strings.HasPrefix(rest, "objects"): // there may be too many objects to record each
			if kind == gitdir.Objects && e.Was.Mode&0o222 == 0 && !byGit(e.Caller) { // else it is being made
				record(dir+"/objects", spool.Record{Was: spool.WasObjects, Reason: "modes and owners of objects are not saved"})
			}
		case stateDir && e.Stat.IsDir():
			record(e.Path, spool.Record{Was: spool.WasDir, Stat: e.Was})
		case kind == gitdir.State && e.Stat.IsRegular():
			record(e.Path, spool.Record{Was: spool.WasBegin, Len: e.Was.Size, Stat: e.Was})
		}
	case event.OpUnlink:
		if kind == gitdir.State && e.Target != "" {
			record(e.Path, spool.Record{Was: spool.WasLink, Target: e.Target})
		}
	case event.OpRmdir:
		if stateDir {
			record(e.Path, spool.Record{Was: spool.WasDir, Stat: e.Stat})
		}
	case event.OpLink:
		if _, _, kind := c.git.place(e.Path2); kind == gitdir.State {
			record(e.Path2, spool.Record{Was: spool.WasAbsent})
		}
	case event.OpRename:
		_, _, to := c.git.place(e.Path2)
		if e.Stat.IsDir() {
			if kind == gitdir.State {
				record(e.Path, spool.Record{Was: spool.WasMoved, Path2: e.Path2, Stat: e.Stat})
			}
			return
		}
		if kind == gitdir.State && e.File != nil {
			c.gitMovedOut(e)
		}
		if to == gitdir.State && e.Replaced == nil {
			record(e.Path2, spool.Record{Was: spool.WasAbsent})
		}
	}
}

func byGit(c fusefs.Caller) bool {
	return c.Proc != nil && (c.Proc.Comm == "git" || strings.HasPrefix(c.Proc.Comm, "git-"))
}

func sameRights(a, b event.Stat) bool { return a.Mode == b.Mode && a.UID == b.UID && a.GID == b.GID }

func (c *Capture) gitMovedOut(e fusefs.Event) {
	r := &spool.Record{Kind: spool.KindGit, Op: event.OpUnlink, Path: e.Path, Time: e.Time.UnixNano()}
	switch same, tell := c.git.continuesChange(e.Path, e.Caller, false, true); {
	case same && !tell:
		return
	case same:
		r.Was = spool.WasSame
	case e.Target != "":
		r.Was, r.Target = spool.WasLink, e.Target
	case !c.gitSavePresent(fusefs.Change{File: e.File, Caller: e.Caller, Op: e.Op}, r, false):
		return
	}
	c.appendBy(e.Caller, r)
}

func (c *Capture) gitClosed(e fusefs.Closed, p string) {
	if _, _, kind := c.git.place(p); kind != gitdir.State {
		return
	}
	c.git.mu.Lock()
	t, ok := c.git.last[p]
	due := ok && time.Since(t.recordedAt) > gitRepeat
	if due {
		t.recordedAt, t.changedAt = time.Now(), time.Now()
		c.git.last[p] = t
	}
	c.git.mu.Unlock()
	if due {
		c.appendBy(writerOf(e), &spool.Record{Kind: spool.KindGit, Op: e.Op, Path: p, Was: spool.WasSame, Time: e.Time.UnixNano()})
	}
}

// linkFollow makes a hard link to the file that path, in /proc/self/fd, refers to.
func linkFollow(path, to string) error {
	return unix.Linkat(unix.AT_FDCWD, path, unix.AT_FDCWD, to, unix.AT_SYMLINK_FOLLOW)
}
