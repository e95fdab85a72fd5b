//go:build linux && (amd64 || arm64)

package outside

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"cachebro/fusefs"
	"cachebro/fusefs/capture"
	"cachebro/store/leaf/event"
	"cachebro/store/leaf/gitdir"
	"cachebro/store/leaf/ignore"
	"cachebro/store/leaf/notifier"
	"cachebro/store/leaf/procfs"
	"cachebro/store/leaf/spool"
	"cachebro/store/wire"

	"golang.org/x/sys/unix"
)

// Options configures a Recorder. All fields are required.
type Options struct {
	Paths   wire.Paths
	Places  *Places
	Ignore  ignore.Options
	Version string
	Logger  *slog.Logger
	// OnRecord is called when a record was added to the spool of a root. It must not block.
	OnRecord func(root string)
	// StartDaemon starts the daemon of a root and returns when it answers requests, or cannot be
	// started.
	StartDaemon func(root string)
}

// Recorder saves content that process trees are about to destroy, and records the changes that they
// made.
type Recorder struct {
	o       Options
	places  *Places
	callers *fusefs.Callers
	comm    string // name of this program
	journal *journal

	// mu guards the fields below.
	mu       sync.Mutex
	resolver resolver
	tracks   map[string]*track      // by root
	dirs     map[string]event.Inode // directories that are in the histories; see knowDir
	roots    map[string]rooted      // by directory
	entries  map[string]*entry      // by path
	pending  []*entry               // paths to look at after the calls on them have run, in the order of the calls
	ops      []*op                  // calls on names whose effect has not been seen yet
	calling  map[uint32]*entry      // by thread: the entry that the thread's last call opens for writing, makes or alters
	opened   opened
}

// rooted caches the history to which the files of a directory belong.
type rooted struct {
	track   *track
	foundAt time.Time
}

const rootedFor = 5 * time.Second

// entry is a path that a tree has touched.
type entry struct {
	path  string
	track *track
	// known is the state recorded in the history, or zero if the path did not exist.
	known   event.Stat
	file    *file // the file in that state, or nil
	by      fusefs.Caller
	when    time.Time
	waits   bool            // the result of a call is awaited
	listed  bool            // the entry is in pending
	writers []fusefs.Caller // the processes that opened the file for writing, newest last
	closed  bool            // at the last look, none of the writers had the file open or was opening it
	held    bool            // at the last look, a process had the file open or mapped; if mapped, the content may since have changed, but not the times
	altered bool            // the file's mode, owner or attributes may have changed too
	arrives bool            // a file that is not in this history is about to be moved to the path
	last    event.Stat      // the state at the last look
	next    time.Time       // the earliest time for the next look
}

// op is a call on names that was let through and whose effect has not been seen yet.
type op struct {
	op       event.Op
	from, to spot
	a, b     *track
	file     *file // the file at from; nil for a removed directory
	replaced *file
	target   string
	by       fusefs.Caller
	when     time.Time
	tid      uint32
	noted    *spool.Record       // the record of this call in the journal
	below    map[string][]string // what was recorded in a directory that leaves its history, by the directory's path
}

func timeOf(r *spool.Record) time.Time { return time.Unix(0, r.Time) }

// New returns a Recorder with the user's own history open. New first records the changes that a
// killed recorder had seen and not yet recorded.
func New(o Options) (*Recorder, error) {
	r := &Recorder{o: o, places: o.Places, resolver: resolver{places: o.Places, elsewhere: map[seenFile]otherPath{}}, tracks: map[string]*track{}, dirs: map[string]event.Inode{}, roots: map[string]rooted{}, entries: map[string]*entry{}, calling: map[uint32]*entry{}, opened: opened{filters: filters(os.Getpid())}}
	r.callers = fusefs.NewCallers(r.described)
	r.resolver.tracks = r.tracks
	var err error
	r.resolver.root, err = rootAt("/")
	if err != nil {
		return nil, fmt.Errorf("tell mounts apart: %w", err)
	}
	r.comm, err = procfs.Comm(os.Getpid())
	if err != nil {
		return nil, err
	}
	state, err := o.Paths.MakeState(wire.OutsideRoot)
	if err != nil {
		return nil, err
	}
	own, err := openTrack(wire.OutsideRoot, o)
	if err != nil {
		return nil, err
	}
	r.tracks[wire.OutsideRoot] = own
	journal, l, err := openJournal(state, o.Logger)
	if err != nil {
		err = errors.Join(err, own.drain())
		own.drop()
		return nil, err
	}
	r.journal = journal
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note()
	r.recover(l)
	return r, nil
}

// note adds to the journal all entries that are still needed.
func (r *Recorder) note() {
	for root := range r.tracks {
		r.journal.add(&spool.Record{Kind: spool.KindMount, Source: root})
	}
	for _, e := range r.pending {
		if e.waits {
			r.journal.addAwaited(e)
		}
	}
	for _, o := range r.ops {
		r.journal.addCall(o)
	}
}

// described writes the command of a process to all histories.
func (r *Recorder) described(p *fusefs.Process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.tracks {
		t.capture.Described(p)
	}
}

// Close records the present state of all touched paths and ends the Recorder.
func (r *Recorder) Close() error {
	r.Settle()
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, t := range r.tracks {
		errs = append(errs, t.drain())
	}
	errs = append(errs, r.journal.close())
	for _, t := range r.tracks {
		t.drop()
	}
	return errors.Join(errs...)
}

// trackOf returns the history of a path. It returns the user's own history if another process is
// writing the project's history, or if that history cannot be opened.
func (r *Recorder) trackOf(path string) *track {
	dir := filepath.Dir(path)
	if k, ok := r.roots[dir]; ok && time.Since(k.foundAt) < rootedFor {
		return k.track
	}
	k := rooted{r.tracks[wire.OutsideRoot], time.Now()}
	if r.o.Paths.HasHistory(dir) {
		if own, err := r.trackAt(dir); err == nil {
			k.track = own
		} else {
			r.o.Logger.Warn("a project's history cannot be written; changes go to the user's own", "root", dir, "error", err)
		}
	} else if len(dir) > len(wire.OutsideRoot) {
		r.trackOf(dir)
		k = r.roots[filepath.Dir(dir)]
	}
	if len(r.roots) > 10_000 {
		clear(r.roots)
	}
	r.roots[dir] = k
	return k.track
}

func (r *Recorder) trackAt(root string) (*track, error) {
	t := r.tracks[root]
	if t != nil {
		return t, nil
	}
	t, err := openTrack(root, r.o)
	if err != nil {
		return nil, err
	}
	r.tracks[root] = t
	r.journal.add(&spool.Record{Kind: spool.KindMount, Source: root})
	return t, nil
}

// ownTemporary reports whether s is a temporary file that the tree itself made or is about to make.
// Every temporary file that is newer than origin.began counts, even one that another process made.
// If files have no birth time, a file counts if it is new to the tree and has changed since then.
func (r *Recorder) ownTemporary(s spot, of origin) bool {
	if of.ours || r.trackOf(s.path).root != wire.OutsideRoot || !r.places.Temporary(s.path) {
		return false
	}
	made := s.st.Birth
	if _, known := r.dirs[s.path]; made == 0 && !known && r.entries[s.path] == nil {
		made = s.st.Ctime
	}
	return !s.exists || made > of.began.UnixNano()
}

// touch does the work of entryAt, and makes the directory known to the history.
func (r *Recorder) touch(s spot, by fusefs.Caller) *entry {
	e := r.entryAt(s, by)
	r.knowDir(e.track, filepath.Dir(s.path))
	return e
}

// entryAt returns the entry of a path. If there is none, entryAt makes an entry with the present
// state.
func (r *Recorder) entryAt(s spot, by fusefs.Caller) *entry {
	e := r.entries[s.path]
	if e == nil {
		if len(r.entries) >= maxEntries {
			maps.DeleteFunc(r.entries, func(_ string, e *entry) bool { return !e.waits })
			clear(r.dirs)
		}
		e = &entry{path: s.path, track: r.trackOf(s.path)}
		if s.exists {
			e.known, e.file = s.st, e.track.fileOf(s.path, s.st)
		}
		r.entries[s.path] = e
	}
	e.by, e.when = by, time.Now()
	return e
}

// knowDir records a directory and its parents if they may be missing from the history of t. They
// may be missing because nothing was recorded in them so far, or because another process made them
// again.
func (r *Recorder) knowDir(t *track, dir string) {
	if len(dir) > len(t.root) {
		st, exists := lstat(dir)
		r.recordDirs(t, dir, exists && r.dirs[dir] != event.InodeOf(st))
	}
}

// recordDirs does the work of knowDir. It compares directories with those in the history only if
// compare is set. recordDirs reports whether it recorded any directory.
func (r *Recorder) recordDirs(t *track, dir string, compare bool) bool {
	if len(dir) <= len(t.root) {
		return false
	}
	again := r.recordDirs(t, filepath.Dir(dir), compare)
	known, seen := r.dirs[dir]
	if seen && !again && !compare {
		return false
	}
	if e := r.entries[dir]; e != nil && e.waits {
		if e.known.Ino == 0 {
			return again // the tree makes this directory, and that is recorded later
		}
		r.settle(e) // first, because the present state may be what the awaited call made
	}
	st, exists := lstat(dir)
	replaced := known != event.InodeOf(st)
	switch {
	case !exists || !st.IsDir():
		return again
	case seen && !again && (!replaced || isMoving(r.ops, dir)):
		return false
	case seen && replaced: // with the directory's record, the history loses what was below the old one
		for path := range r.dirs {
			if within(path, dir) {
				r.dirs[path] = event.Inode{}
			}
		}
	}
	r.dirs[dir] = event.InodeOf(st)
	f := t.fileOf(dir, st)
	if seen {
		capture.ForgetFound(f)
	}
	t.capture.Found(f, t.rel(dir), "", st)
	return true
}

// isMoving reports whether one of the calls may be moving another directory to a path, or to one
// above it. The record of that call follows.
func isMoving(calls []*op, path string) bool {
	return slices.ContainsFunc(calls, func(o *op) bool {
		return o.to.path != "" && (within(path, o.from.path) || within(path, o.to.path))
	})
}

// maxEntries bounds the remembered paths. If there are more, those whose result is not awaited are
// forgotten.
const maxEntries = 200_000

// await marks an entry whose state must be examined after the calls on it have run.
func (r *Recorder) await(e *entry) {
	e.waits = true
	e.last, e.next = event.Stat{}, time.Time{}
	r.list(e)
	r.journal.addAwaited(e)
}

// addOp registers a call on names that is about to be let through. An older call on the same name
// counts as failed if it had enough time and shows no effect. Otherwise, the effect of the new call
// could be mistaken for the effect of the older one.
func (r *Recorder) addOp(o *op) {
	r.ops = keep(r.ops, func(old *op) bool {
		failed := old.from.path == o.from.path && o.when.Sub(old.when) > clockTick
		if failed {
			r.journal.addEnded(old)
		}
		return !failed
	})
	r.ops = append(r.ops, o)
	r.journal.addCall(o)
}

func (r *Recorder) list(e *entry) {
	if !e.listed {
		e.listed = true
		r.pending = append(r.pending, e)
	}
}

// take empties the list of pending entries and returns those whose result is awaited.
func (r *Recorder) take() []*entry {
	all := r.pending
	r.pending = nil
	return keep(all, func(e *entry) bool { e.listed = false; return e.waits })
}

// see handles a call before the call is let through. examined is false if the call could not be
// examined, or what it changes could not be saved. If unsettled is set, settleQuiet must be called soon.
func (r *Recorder) see(n *notifier.Notice, of origin) (examined, unsettled bool) {
	c, ok := notifier.Calls[uint32(n.NR)]
	if !ok || n.Foreign() {
		return true, false
	}
	if r.needsNoRecord(n, c, of) {
		return true, false
	}
	by := r.callers.Of(n.PID)
	if by.Proc != nil && by.Proc.Comm == r.comm && !of.ours {
		return true, false // our own writes are recorded elsewhere, and a process that serves a mount must not wait for itself
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.journal.flush()
	r.confirm(n.PID)
	r.resolver.begin()
	delete(r.calling, n.PID)
	err := r.look(n, c, by, of)
	if err != nil {
		r.o.Logger.Warn("a system call could not be examined", "error", err, "nr", n.NR)
	}
	changes := len(r.pending) > 0 || len(r.ops) > 0
	return err == nil && !(changes && stopped(r.tracks)), changes || len(r.journal.unwritten) > 0
}

// stopped reports whether a history takes no more contents, because its disk is full or fails.
func stopped(tracks map[string]*track) bool {
	for _, t := range tracks {
		if t.capture.Stats().State != "capturing" {
			return true
		}
	}
	return false
}

// needsNoRecord reports whether a call opens a device that stores nothing, or makes or removes one
// of git's locks. Recorder.see calls needsNoRecord before it looks up the caller, because the
// lookup would be most of the cost of such a call.
func (r *Recorder) needsNoRecord(n *notifier.Notice, c notifier.Call, of origin) bool {
	if c.Op != notifier.Open && c.Op != notifier.Remove {
		return false
	}
	name, err := n.Name(c.Path)
	if err != nil {
		return false
	}
	if c.Op == notifier.Open && (name == "/dev/null" || name == "/dev/tty") {
		return true
	}
	if !passing(name) {
		return false
	}
	if c.Op == notifier.Open {
		flags, err := n.OpenFlags(c)
		if err != nil || flags&(unix.O_CREAT|unix.O_EXCL) != unix.O_CREAT|unix.O_EXCL {
			return false
		}
	}
	path, err := n.Path(c.Dir, c.Path, c.WithoutPath)
	if err != nil || path == "" {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.resolver.begin()
	s, ok := r.resolver.resolve(n, path, false)
	return ok && passing(s.path) && !s.st.IsDir() && r.passedOver(s, false, of)
}

// passing reports whether a path is a short-lived file in a git directory, such as a lock. Such a
// file is not part of the repository's state.
func passing(path string) bool {
	_, rest, git := gitdir.Split(path)
	return git && rest != "" && gitdir.KindOf(rest) == gitdir.Nothing
}

// look saves content that a call may destroy, and notes which paths to look at after the call.
func (r *Recorder) look(n *notifier.Notice, c notifier.Call, by fusefs.Caller, of origin) error {
	if c.Op == notifier.Bind {
		path, err := n.SocketPath()
		if path != "" {
			r.make(n, by, path, of)
		}
		return err
	}
	path, err := n.Path(c.Dir, c.Path, c.WithoutPath)
	throughDescriptor := path == "" && c.Op == notifier.Change && c.Dir >= 0
	if throughDescriptor { // the name is empty (AT_EMPTY_PATH), or the name under which the file was opened has since been removed
		path = n.Descriptor(c.Dir)
	}
	if err != nil || path == "" && c.Op != notifier.Hard {
		return err
	}
	switch c.Op {
	case notifier.Open, notifier.Open2:
		flags, err := n.OpenFlags(c)
		if err != nil {
			return err
		}
		if c.Op == notifier.Open2 && n.InRoot(c) {
			name, err := n.Name(c.Path)
			if err != nil {
				return err
			}
			r.resolver.call = callFacts{hasRoot: true, root: n.Descriptor(c.Dir)}
			path = "/" + name
		}
		r.open(n, by, path, flags, of)
	case notifier.Change:
		if n.NR == unix.SYS_TRUNCATE {
			r.open(n, by, path, unix.O_WRONLY|unix.O_TRUNC, of)
			return nil
		}
		followed := c.Path >= 0 && !lastLinks[n.NR] && (c.Flags < 0 || n.Args[c.Flags]&unix.AT_SYMLINK_NOFOLLOW == 0)
		r.change(n, by, path, followed || throughDescriptor, of)
	case notifier.Make:
		r.make(n, by, path, of)
	case notifier.Remove:
		r.remove(n, by, path, n.NR == sysRmdir || n.NR == unix.SYS_UNLINKAT && n.Args[2]&unix.AT_REMOVEDIR != 0, of)
	case notifier.Move, notifier.Hard:
		to, err := n.Path(c.Dir2, c.Path2, false)
		if err != nil || to == "" {
			return err
		}
		if c.Op == notifier.Move {
			flags := uint64(0)
			if n.NR == unix.SYS_RENAMEAT2 {
				flags = n.Args[4]
			}
			r.move(n, by, path, to, flags, of)
			return nil
		}
		follow := n.NR == unix.SYS_LINKAT && n.Args[4]&unix.AT_SYMLINK_FOLLOW != 0
		r.link(n, by, path, to, follow, of)
	}
	return nil
}

// lastLinks are the calls that do not follow a symbolic link in the last component of a path.
var lastLinks = map[int32]bool{unix.SYS_LSETXATTR: true, unix.SYS_LREMOVEXATTR: true, sysLchown: true}

// open handles a call that may write to a file.
func (r *Recorder) open(n *notifier.Notice, by fusefs.Caller, path string, flags uint64, of origin) {
	if flags&unix.O_PATH != 0 || flags&unix.O_TMPFILE == unix.O_TMPFILE {
		return
	}
	only := flags&(unix.O_CREAT|unix.O_EXCL) == unix.O_CREAT|unix.O_EXCL
	s, ok := r.resolver.resolve(n, path, flags&unix.O_NOFOLLOW == 0 && !only)
	writes := flags&unix.O_ACCMODE != unix.O_RDONLY || flags&unix.O_TRUNC != 0
	switch {
	case !ok, r.ownTemporary(s, of):
	case !s.exists:
		if flags&unix.O_CREAT != 0 {
			r.handleMake(by, s, false, of)
		}
	case only, !writes, !s.st.IsRegular(), !allowed(s.path):
	default:
		op := event.OpWrite
		if flags&unix.O_TRUNC != 0 {
			op = event.OpTruncate
		}
		r.handleWrite(by, s, op, of)
	}
}

// passedOver reports whether a call is ignored because changes of its path are not recorded. A file
// with other names is not ignored. Nor is a call ignored that carries out a plan of cachebro, such
// as an undo, because a redo has to find the plan's changes.
func (r *Recorder) passedOver(s spot, dir bool, of origin) bool {
	return !of.ours && (dir || s.st.Nlink < 2) && r.trackOf(s.path).isUnrecorded(s.path, dir)
}

// handleMake handles a call that may make a name.
func (r *Recorder) handleMake(by fusefs.Caller, s spot, dir bool, of origin) {
	if r.passedOver(s, dir, of) {
		return
	}
	r.goneByOthers(s.path)
	e := r.touch(s, by)
	e.writers = nil
	if !dir {
		r.opens(e)
	}
	r.calling[by.TID] = e
	r.await(e)
}

func (r *Recorder) handleWrite(by fusefs.Caller, s spot, o event.Op, of origin) {
	if r.passedOver(s, false, of) {
		return
	}
	e := r.current(s, by)
	r.otherNames(e, s)
	r.takeOver(e)
	e.track.capture.Before(fusefs.Change{File: e.file, Caller: by, Op: o})
	r.opens(e)
	r.await(e)
}

// current returns the entry of a path. If the entry's file is no longer at the path, current
// replaces it by the present file, whose state the caller must then record.
func (r *Recorder) current(s spot, by fusefs.Caller) *entry {
	t := r.trackOf(s.path)
	r.knowDir(t, filepath.Dir(s.path))                                       // first, because settle may record the states of files in that directory
	for _, e := range r.byOtherNames(t.files[event.InodeOf(s.st)], s.path) { // the file may have been written under another name
		if e.waits {
			r.settle(e)
		}
	}
	if e := r.entries[s.path]; e != nil {
		r.settle(e)
	}
	e := r.entryAt(s, by)
	if e.file == nil || e.file.inode != event.InodeOf(s.st) {
		e.known, e.file = s.st, e.track.fileOf(s.path, s.st)
	}
	return e
}

// byOtherNames returns the entries of a file's names except the name skip. The file may be nil.
func (r *Recorder) byOtherNames(f *file, skip string) (all []*entry) {
	if f == nil {
		return nil
	}
	for _, name := range f.Paths(0) {
		if e := r.entries[f.track.abs(name)]; e != nil && e.path != skip {
			all = append(all, e)
		}
	}
	return all
}

func (r *Recorder) change(n *notifier.Notice, by fusefs.Caller, path string, follow bool, of origin) {
	s, ok := r.resolver.resolve(n, path, follow)
	if !ok || !s.exists || r.ownTemporary(s, of) || r.passedOver(s, s.st.IsDir(), of) {
		return
	}
	e := r.current(s, by)
	e.recordState(s)
	r.otherNames(e, s)
	r.takeOver(e)
	e.altered = true
	r.calling[by.TID] = e
	r.await(e)
}

// takeOver makes e await the results that are awaited under the file's other names. Those calls
// have failed or have not run yet. Later changes are attributed to the last caller, as if all calls
// had used one name.
func (r *Recorder) takeOver(e *entry) {
	for _, other := range r.byOtherNames(e.file, e.path) {
		if !other.waits || r.holder(other, other.known) >= 0 {
			continue
		}
		e.written(other.writers...)
		e.altered, e.held = e.altered || other.altered, e.held || other.held
		other.writers, other.altered = nil, false
		r.unawait(other)
	}
}

// recordState records the state of a name that may be missing from the history.
func (e *entry) recordState(s spot) {
	e.track.capture.Found(e.file, e.track.rel(s.path), target(s.path, s.st), s.st)
}

// maxExamined bounds how many files in the subtree of a moving directory are looked at.
const maxExamined = 50_000

// below returns the recorded paths in the subtree of a directory, parents first, and their states.
// Ignored files are among them, because they may later get a name that is not ignored. If one of
// cachebro's plans moves the directory, ignored files are left out, because their history would begin
// in the middle of the changes that the plan undoes.
func (t *track) below(s spot, of origin) iter.Seq2[string, event.Stat] {
	return func(yield func(string, event.Stat) bool) {
		if !s.st.IsDir() {
			return
		}
		looked := 0
		_ = filepath.WalkDir(s.path, func(path string, d fs.DirEntry, err error) error {
			if looked++; err != nil || path == s.path {
				return nil // an unreadable path is not recorded
			}
			if looked > maxExamined {
				return filepath.SkipAll
			}
			if t.isUnrecorded(path, d.IsDir()) || of.ours && t.class(path, d.IsDir()) == ignore.Ignored {
				if d.IsDir() {
					return filepath.SkipDir
				}
				return nil
			}
			st, exists := lstat(path)
			if exists && st.Dev == s.st.Dev && !yield(path, st) {
				return filepath.SkipAll
			}
			return nil
		})
	}
}

// foundBelow records the subtree of a directory that is about to move. Otherwise the names that the
// files had before the move would be missing from the history.
func (t *track) foundBelow(s spot, of origin) {
	for path, st := range t.below(s, of) {
		t.capture.Found(t.fileOf(path, st), t.rel(path), target(path, st), st)
	}
}

// losingBelow saves the files in the subtree of a directory that is about to leave the history. It
// returns the paths of everything recorded in the subtree, parents first, relative to the directory.
func (t *track) losingBelow(s spot, by fusefs.Caller, of origin) (all []string) {
	for path, st := range t.below(s, of) {
		all = append(all, strings.TrimPrefix(path, s.path))
		if st.IsRegular() {
			t.capture.Before(fusefs.Change{File: t.fileOf(path, st), Caller: by, Op: event.OpUnlink, Name: t.rel(path)})
		}
	}
	return all
}

// otherNames records a file's other names while all of them still exist. It searches the same
// directory and the file's project for them.
func (r *Recorder) otherNames(e *entry, s spot) {
	known := func() bool { return len(e.file.Paths(0)) >= int(s.st.Nlink) }
	if s.st.IsDir() || s.st.Nlink < 2 || known() {
		return
	}
	tell := func(path string) {
		if st, exists := lstat(path); exists && path != s.path && sameInode(st, s.st) {
			e.track.capture.Found(e.track.fileOf(path, st), e.track.rel(path), target(path, st), st)
		}
	}
	dir := filepath.Dir(s.path)
	if all, err := os.ReadDir(dir); err == nil && len(all) <= maxExamined {
		for _, d := range all {
			if !d.IsDir() {
				tell(filepath.Join(dir, d.Name()))
			}
		}
	}
	if e.track.root == wire.OutsideRoot || known() {
		return
	}
	for _, path := range e.track.linked(event.InodeOf(s.st)) {
		tell(path)
	}
}

// make handles a call that makes a directory, a symbolic link, a socket or a special file.
func (r *Recorder) make(n *notifier.Notice, by fusefs.Caller, path string, of origin) {
	s, ok := r.resolver.resolve(n, path, false)
	if ok && !s.exists && !r.ownTemporary(s, of) {
		r.handleMake(by, s, true, of)
	}
}

// remove handles a name that is about to be removed.
func (r *Recorder) remove(n *notifier.Notice, by fusefs.Caller, path string, dir bool, of origin) {
	s, ok := r.resolver.resolve(n, path, false)
	willFail := !s.exists || dir != s.st.IsDir()
	if !ok || willFail || r.ownTemporary(s, of) || !allowed(filepath.Dir(s.path)) {
		return
	}
	if !dir && passing(s.path) && r.passedOver(s, dir, of) {
		return
	}
	if dir && r.entries[s.path] == nil && s.st.Birth >= of.began.UnixNano() && !of.ours {
		return // a sandbox made this directory to mount something over it, and its making was not recorded
	}
	e := r.current(s, by)
	o := &op{op: event.OpUnlink, from: s, a: e.track, file: e.file, target: target(s.path, s.st), by: by, when: time.Now(), tid: n.PID}
	if dir {
		o.op = event.OpRmdir
	}
	r.losing(e, s, by, o.op)
	r.addOp(o)
}

// losing saves a file whose name is about to be removed or replaced.
func (r *Recorder) losing(e *entry, s spot, by fusefs.Caller, o event.Op) {
	if s.st.IsRegular() {
		e.track.capture.Before(fusefs.Change{File: e.file, Caller: by, Op: o, Name: e.track.rel(s.path)})
	}
	if !s.st.IsRegular() || s.st.Nlink > 1 {
		e.recordState(s)
		r.otherNames(e, s)
	}
}

func (r *Recorder) move(n *notifier.Notice, by fusefs.Caller, from, to string, flags uint64, of origin) {
	a, ok := r.resolver.resolve(n, from, false)
	b, ok2 := r.resolver.resolve(n, to, false)
	if !ok && !ok2 || !a.exists {
		return // neither place is recorded, or the call will fail
	}
	if b.path == "" || b.exists && (sameInode(a.st, b.st) || flags&unix.RENAME_NOREPLACE != 0) {
		return // the call will fail or change nothing
	}
	if r.ownTemporary(a, of) && r.ownTemporary(b, of) || !bothAllowed(filepath.Dir(a.path), filepath.Dir(b.path)) {
		return
	}
	if r.ownTemporary(a, of) && !a.st.IsDir() && flags&unix.RENAME_EXCHANGE == 0 {
		r.arrives(by, b, of)
		return
	}
	r.settleBelow(a)
	ea := r.current(a, by)
	o := &op{op: event.OpRename, from: a, to: b, below: map[string][]string{}, a: ea.track, b: r.trackOf(b.path), file: ea.file, target: target(a.path, a.st), by: by, when: time.Now(), tid: n.PID}
	moves(r, ea, a, o, of)
	if b.exists {
		r.settleBelow(b)
		eb := r.current(b, by)
		o.replaced = eb.file
		if flags&unix.RENAME_EXCHANGE != 0 {
			o.op = event.OpExchange
			moves(r, eb, b, o, of)
		} else {
			r.losing(eb, b, by, event.OpRename)
		}
	} else {
		newName(r, a, b)
	}
	if o.a == o.b {
		ea.file.moving(o.a.rel(b.path))
	}
	r.addOp(o)
}

// moves records what a call is about to move, and saves the files that leave the history.
func moves(r *Recorder, e *entry, s spot, o *op, of origin) {
	e.recordState(s)
	e.track.foundBelow(s, of)
	written := r.recordWritten(e, s.st)
	leaves := o.a != o.b
	if written || leaves && s.st.IsRegular() {
		e.track.capture.Before(fusefs.Change{File: e.file, Caller: o.by, Op: event.OpUnlink, Name: e.track.rel(s.path)})
	}
	if leaves {
		o.below[s.path] = e.track.losingBelow(s, o.by, of)
	}
}

// newName records the directory of a name that a file with the name from is about to get. In the
// history, the record of a directory must come before those of the names in it.
func newName(r *Recorder, from, to spot) {
	r.parents(to.path)
	if dir := filepath.Dir(to.path); dir != filepath.Dir(from.path) {
		r.knowDir(r.trackOf(to.path), dir)
	}
}

// arrives handles the new name of a file that is about to be moved and is in no history.
func (r *Recorder) arrives(by fusefs.Caller, s spot, of origin) {
	if !s.exists {
		r.handleMake(by, s, false, of)
		return
	}
	e := r.current(s, by)
	r.losing(e, s, by, event.OpRename)
	e.written(by)
	e.arrives = true
	r.await(e)
}

// link handles a file that is about to get another name.
func (r *Recorder) link(n *notifier.Notice, by fusefs.Caller, from, to string, follow bool, of origin) {
	b, ok := r.resolver.resolve(n, to, false)
	if !ok || b.exists || r.ownTemporary(b, of) {
		return
	}
	a, ok := spot{}, false
	if from != "" {
		a, ok = r.resolver.resolve(n, from, follow)
	}
	t := r.trackOf(b.path)
	if !ok || !a.exists || r.trackOf(a.path) != t {
		r.handleMake(by, b, false, of) // a file without a name, or a file of another history
		return
	}
	e := r.current(a, by)
	e.recordState(a)
	r.recordWritten(e, a.st)
	newName(r, a, b)
	r.addOp(&op{op: event.OpLink, from: a, to: b, a: t, b: t, file: e.file, target: target(a.path, a.st), by: by, when: time.Now(), tid: n.PID})
}
