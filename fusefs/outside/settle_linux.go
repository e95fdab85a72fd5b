//go:build linux && (amd64 || arm64)

package outside

import (
	"maps"
	"path/filepath"
	"slices"
	"time"

	"cachebro/fusefs"
	"cachebro/store/leaf/event"
	"cachebro/store/leaf/ignore"

	"golang.org/x/sys/unix"
)

// Settle records the present state of every path that the trees have touched.
func (r *Recorder) Settle() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.confirm(0)
	all := r.take()
	for _, e := range all {
		e.last, _ = lstat(e.path)
	}
	r.settleAll(all)
}

// settleAll settles entries whose last field was just updated. It reads the list of a process's
// open files only once. Reading it for each entry was a quarter of the cost of making a file.
func (r *Recorder) settleAll(all []*entry) {
	r.opened.cache = map[*fusefs.Process]openFiles{}
	for _, e := range all {
		r.settle(e)
	}
	r.opened.cache = nil
}

// quietFor is how long a file must be unchanged to count as closed.
const quietFor = 100 * time.Millisecond

// settleQuiet settles entries that have not changed since the last call of settleQuiet. It reports
// whether any results are still awaited.
func (r *Recorder) settleQuiet() (awaits bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.confirm(0)
	now := time.Now()
	r.ops = keep(r.ops, func(o *op) bool {
		young := now.Sub(o.when) < opFor || alive(o.tid) && now.Sub(o.when) < callFor
		if !young {
			r.journal.addEnded(o)
		}
		return young
	})
	for tid, e := range r.calling {
		if age := now.Sub(e.when); age > callFor || age > opFor && !alive(tid) {
			delete(r.calling, tid)
		}
	}
	var quiet []*entry
	for _, e := range r.take() {
		st, exists := lstat(e.path)
		if now.Before(e.next) || exists && st.IsRegular() && !unchanged(st, e.last) {
			r.list(e)
		} else {
			quiet = append(quiet, e)
		}
		e.last = st
	}
	r.settleAll(quiet)
	r.journal.tidy(r.note)
	return len(r.pending) > 0 || len(r.ops) > 0
}

// opFor is how long a call may take before it counts as failed, and callFor is how long it may take if
// its thread lives and has made no other call. On a busy machine a thread may have to wait for seconds.
const (
	opFor   = time.Second
	callFor = time.Minute
)

func alive(tid uint32) bool { return unix.Kill(int(tid), 0) != unix.ESRCH }

func keep[T any](all []T, which func(T) bool) []T {
	var kept []T
	for _, x := range all {
		if which(x) {
			kept = append(kept, x)
		}
	}
	return kept
}

// settle records the result of the calls on a path.
func (r *Recorder) settle(e *entry) {
	waited := e.waits
	e.waits = false
	defer func() {
		if waited && !e.waits {
			r.journal.addSettled(e.path)
		}
	}()
	st, exists := lstat(e.path)
	asKnown := exists == (e.known.Ino != 0) && (!exists || unchanged(st, e.known))
	nothingYet := waited && !e.held && asKnown
	only := e.altered || e.known.Ino == 0 // no descriptor shows later what the call did
	if nothingYet && (time.Since(e.when) < opFor || only && r.inCall(e)) {
		e.waits = true // look again later, because the call may not have run yet
		r.list(e)
		return
	}
	switch {
	case !exists && e.known.Ino == 0:
		delete(r.entries, e.path) // the file was made and removed, or it was never made
		return
	case !exists, !waited && unchanged(st, e.known):
		return // nothing to record; removals by the tree are recorded by confirm
	}
	if exists {
		r.knowDir(e.track, filepath.Dir(e.path))
	}
	holder := r.holder(e, st)
	held := holder >= 0 && st.IsRegular()
	switch {
	case !waited && !(sameInode(st, e.known) && held):
		r.byOthers(e, st)
	case sameInode(st, e.known):
		r.altered(e, st, held)
	default:
		r.appeared(e, st, held)
	}
	e.known, e.arrives, e.held = st, false, held
	if st.Nlink > 1 {
		for _, other := range r.byOtherNames(e.file, e.path) {
			if sameInode(other.known, st) && !other.waits {
				other.known = st
			}
		}
	}
	switch {
	case !waited || len(e.writers) == 0 || !st.IsRegular():
	case time.Since(e.when) < opFor && r.inCall(e), !held && changedSince(e.path, st):
		// During an open, the file may exist before the descriptor does.
		r.await(e)
	case held: // this writer still has the file open, but those that opened it later have closed it
		e.writers = e.writers[:holder+1]
		r.await(e)
		e.next = time.Now().Add(heldEvery)
	default:
		e.closed = !isOpening(r.calling, e)
	}
}

// changedSince reports whether the file changed since st was read. The writer may have changed and
// closed the file just before we looked for open descriptors.
func changedSince(path string, st event.Stat) bool {
	now, exists := lstat(path)
	return !exists || !unchanged(now, st)
}

// heldEvery is how often to look at a file that a process keeps open.
const heldEvery = time.Second

// byOthers records that an unwatched process changed a path.
func (r *Recorder) byOthers(e *entry, st event.Stat) {
	was, before := e.file, e.known
	e.file, e.writers = e.track.fileOf(e.path, st), nil
	if was != nil && was != e.file {
		was.dropName(e.track.rel(e.path))
		before = event.Stat{} // e.known describes another file, which had this name before
	}
	if st.IsRegular() {
		e.track.capture.Outside(e.file, before, st)
	}
}

// goneByOthers records that an unwatched process removed a path that exists according to the
// history. Otherwise a new file that the tree makes there would count as a change of the removed
// file.
func (r *Recorder) goneByOthers(path string) {
	e := r.entries[path]
	if e != nil && e.waits {
		r.settle(e)
	}
	if e == nil || e.waits || e.known.Ino == 0 {
		return
	}
	if slices.ContainsFunc(r.ops, func(o *op) bool { return o.from.path == path || o.to.path == path }) {
		return // a watched call may have removed it
	}
	ev := removal(e.track, path, "", e.known, e.file, fusefs.Caller{}, time.Now())
	if e.file != nil {
		e.file.dropName(ev.Path)
		e.track.forget(e.file)
	}
	e.track.capture.Done(ev)
	r.absent(path, ev.Time)
}

// altered handles an existing file that the tree may have changed. New content is recorded before a
// new mode, because the record of the mode contains the new length and time, which do not belong to
// the old content.
func (r *Recorder) altered(e *entry, st event.Stat, held bool) {
	same := unchanged(st, e.known)
	if len(e.writers) > 0 && st.IsRegular() {
		by := e.writer()
		if e.altered { // the writer may have changed nothing, so the process that changed the attributes counts as the author
			by = e.by
		}
		closed := fusefs.Closed{File: e.file, Caller: by, Writer: by, Op: event.OpWrite, Stat: st, TailFrom: -1, LastPath: e.file.Path(), Idle: held, Time: e.when}
		if same && (held || !e.held) {
			closed.TailFrom = st.Size
		}
		e.track.capture.Closed(closed)
	}
	if !same && (e.altered || len(e.writers) == 0) {
		was := e.known
		was.Size = st.Size // the new content is recorded already
		e.track.capture.Done(fusefs.Event{Op: event.OpChmod, File: e.file, Caller: e.by, Path: e.track.rel(e.path), Stat: st, Was: was, Class: e.track.class(e.path, st.IsDir()), Time: e.when})
	}
	e.altered = false
}

// appeared handles a new file. If held is set, the writer still has the file open.
func (r *Recorder) appeared(e *entry, st event.Stat, held bool) {
	r.parents(e.path)
	was, replaces := e.file, e.known.Ino != 0
	linked := e.known.Nlink > 1 || e.arrives && st.Nlink > 1
	if replaces && (linked || !e.known.IsRegular() || !st.IsRegular()) { // it is not new content of the replaced file
		e.track.capture.Done(removal(e.track, e.path, "", e.known, was, e.by, e.when))
		replaces = false
	}
	if was != nil && was.inode != event.InodeOf(st) {
		was.dropName(e.track.rel(e.path))
		e.track.forget(was)
	}
	e.file = e.track.fileOf(e.path, st)
	ev := fusefs.Event{File: e.file, Caller: e.by, Path: e.track.rel(e.path), Stat: st, Target: target(e.path, st), Class: e.track.class(e.path, st.IsDir()), Time: e.when}
	ev.Class2 = ev.Class
	switch kindOf(st) {
	case unix.S_IFREG:
		if other := e.file.otherName(ev.Path); other != "" && !replaces { // the file was linked through a descriptor
			ev.Op = event.OpLink
			ev.Path, ev.Path2 = other, ev.Path
			ev.Class = e.track.class(e.track.abs(other), false)
			e.track.capture.Done(ev)
			r.relinked(e.file)
			return
		}
		ev.Op = event.OpCreate
		if !replaces {
			e.track.capture.Done(ev)
		} else {
			ev.Op = event.OpWrite
		}
		e.track.capture.Closed(fusefs.Closed{File: e.file, Caller: e.writer(), Writer: e.writer(), Op: ev.Op, Stat: st, TailFrom: -1, LastPath: ev.Path, Idle: held, Time: e.when})
		return
	case unix.S_IFDIR:
		ev.Op = event.OpMkdir
	case unix.S_IFLNK:
		ev.Op = event.OpSymlink
	default:
		ev.Op = event.OpMknod
	}
	e.track.capture.Done(ev)
}

// parents settles the parent directories that the tree made. Their records must come before the
// record of path.
func (r *Recorder) parents(path string) {
	for dir := filepath.Dir(path); dir != "/"; dir = filepath.Dir(dir) {
		e := r.entries[dir]
		if e == nil || !e.waits || e.known.Ino != 0 {
			return
		}
		r.settle(e)
	}
}

// settleBelow settles the awaited entries in the subtree of a directory that is about to move.
func (r *Recorder) settleBelow(s spot) {
	if !s.st.IsDir() {
		return
	}
	for _, e := range r.pending {
		if e.waits && within(e.path, s.path) {
			r.settle(e)
		}
	}
}

// confirm records the calls on names whose effect can be seen. A thread that makes another call or
// has ended has finished its previous call. If the previous call has no visible effect, it failed.
func (r *Recorder) confirm(tid uint32) {
	if len(r.ops) == 0 {
		return
	}
	r.ops = keep(r.ops, func(o *op) bool {
		inProgress := o.tid != tid && alive(o.tid) // checked before the effect, because the call may end at any time
		waits := !r.happened(o) && inProgress
		if !waits {
			r.journal.addEnded(o)
		}
		return waits
	})
}

// happened records a call if the call's effect can be seen, and reports whether it can be seen.
func (r *Recorder) happened(o *op) bool {
	from, exists := lstat(o.from.path)
	gone := !exists || !sameInode(from, o.from.st)
	switch o.op {
	case event.OpUnlink, event.OpRmdir:
		if !gone {
			return false
		}
		r.recordRemoval(o)
		return true
	}
	to, exists := lstat(o.to.path)
	if !exists || !sameInode(to, o.from.st) {
		return false
	}
	switch o.op {
	case event.OpLink:
		o.file.addName(o.b.rel(o.to.path))
		r.relinked(o.file)
		known := asCalled(o.from.st, to)
		r.noteState(o.to.path, o.b, known, o.file, o)
		o.a.capture.Done(fusefs.Event{Op: event.OpLink, File: o.file, Caller: o.by, Path: o.a.rel(o.from.path), Path2: o.b.rel(o.to.path), Target: o.target, Stat: known,
			Class: o.a.class(o.from.path, false), Class2: o.b.class(o.to.path, false), Time: o.when})
		return true
	case event.OpExchange:
		if !exists || !sameInode(from, o.to.st) {
			return false
		}
	default:
		if !gone {
			return false
		}
	}
	r.recordMove(o, from, to)
	if o.op == event.OpRename && kindOf(from) == unix.S_IFCHR { // RENAME_WHITEOUT made a device under the old name
		r.await(r.touch(spot{path: o.from.path}, o.by))
	}
	return true
}

func (r *Recorder) recordRemoval(o *op) {
	if o.op == event.OpUnlink {
		r.lostName(o.file, o.from.path, o.from.st, o)
	} else {
		o.file.dropName(o.a.rel(o.from.path))
	}
	o.a.capture.Done(removal(o.a, o.from.path, o.target, o.from.st, o.file, o.by, o.when))
	r.absent(o.from.path, o.when)
	o.a.forget(o.file)
}

// absent records that a path did not exist after a call at the given time. It stops awaiting
// results of earlier calls. Otherwise a file that somebody else makes there would be attributed to
// the process that removed the path.
func (r *Recorder) absent(path string, when time.Time) {
	delete(r.dirs, path)
	if e := r.entries[path]; e != nil {
		e.known = event.Stat{}
		e.file, e.writers = nil, nil
		if !e.when.After(when) {
			r.unawait(e)
		}
	}
}

// forget drops a file without names.
func (t *track) forget(f *file) {
	if f != nil && f.Path() == "" {
		delete(t.files, f.inode)
	}
}

// noteState stores st, which was just recorded in a history, as the known state of a path.
func (r *Recorder) noteState(path string, t *track, st event.Stat, f *file, o *op) *entry {
	e := r.entries[path]
	if e == nil {
		e = &entry{path: path, track: t}
		r.entries[path] = e
	}
	e.known, e.file = st, f
	e.by, e.when = o.by, o.when
	return e
}

// asCalled returns the state of a file at the time of a call on its name. Data written through a
// descriptor since then is not an effect of the call.
func asCalled(was, is event.Stat) event.Stat {
	if is.IsRegular() && (was.Size != is.Size || was.Mtime != is.Mtime) {
		is.Size, is.Mtime, is.Ctime = was.Size, was.Mtime, was.Ctime
	}
	return is
}

// relinkedAs returns the file's present state, is, if only a change of the file's names made it
// differ from its earlier state, was. Otherwise it returns the earlier state.
func relinkedAs(was, is event.Stat) event.Stat {
	if is.Size == was.Size && is.Mtime == was.Mtime && is.Mode == was.Mode {
		return is
	}
	return was
}

func (r *Recorder) recordMove(o *op, from, to event.Stat) {
	if o.a != o.b {
		leave(r, o, o.a, o.from, o.file, o.target)
		if o.op == event.OpExchange {
			leave(r, o, o.b, o.to, o.replaced, target(o.from.path, from))
			arrive(r, o, o.b, o.a, o.to.path, o.from.path)
		} else if o.replaced != nil {
			r.lostName(o.replaced, o.to.path, o.to.st, o)
		}
		arrive(r, o, o.a, o.b, o.from.path, o.to.path)
		return
	}
	a, b := o.a.rel(o.from.path), o.b.rel(o.to.path)
	known := asCalled(o.from.st, to)
	ev := fusefs.Event{Op: o.op, File: o.file, Caller: o.by, Path: a, Path2: b, Target: o.target, Stat: known, Time: o.when,
		Class: o.a.class(o.from.path, to.IsDir()), Class2: o.b.class(o.to.path, to.IsDir())}
	entryFrom, entryTo := entryNow(r.entries, o.from.path), entryNow(r.entries, o.to.path)
	if o.replaced != nil {
		ev.Replaced, ev.ReplacedStat = o.replaced, o.to.st
		if o.op == event.OpExchange {
			ev.OtherTarget = target(o.from.path, from)
			o.replaced.dropName(b)
		} else {
			r.lostName(o.replaced, o.to.path, o.to.st, o)
		}
	}
	o.file.dropName(a)
	o.file.addName(b)
	r.absent(o.from.path, o.when)
	r.stillHeld(r.noteState(o.to.path, o.b, known, o.file, o), entryFrom, to)
	if to.IsDir() || o.op == event.OpExchange {
		r.shift(o, o.op == event.OpExchange)
	}
	if o.op == event.OpExchange {
		o.replaced.addName(a)
		r.stillHeld(r.noteState(o.from.path, o.a, asCalled(o.to.st, from), o.replaced, o), entryTo, from)
	} else if o.replaced != nil {
		o.a.forget(o.replaced)
	}
	r.relinked(o.file)
	r.relinked(o.replaced)
	if ev.Class2 != ev.Class && ev.Class == ignore.Excluded {
		ev.Class = ev.Class2
	}
	o.a.capture.Done(ev)
}

// leave records that a call moved a file, a directory, or a symbolic link that leads to the path to, out
// of the history t.
func leave(r *Recorder, o *op, t *track, from spot, f *file, to string) {
	t.capture.Done(removal(t, from.path, to, from.st, f, o.by, o.when))
	r.absent(from.path, o.when)
	if !from.st.IsDir() {
		f.dropName(t.rel(from.path))
		t.forget(f)
		return
	}
	for path, e := range r.entries {
		if path != from.path && within(path, from.path) {
			delete(r.entries, path)
			r.unawait(e)
		}
	}
	maps.DeleteFunc(r.dirs, func(path string, _ event.Inode) bool { return within(path, from.path) })
	for _, f := range t.files {
		for _, name := range f.Paths(0) {
			if within(t.abs(name), from.path) {
				f.dropName(name)
			}
		}
		t.forget(f)
	}
}

// arrive awaits the records of a file or a directory that a call moved from the history source into the
// history t. What the source did not record stays unknown, unless it replaced a file, because an undo
// that removed it could not put it back.
func arrive(r *Recorder, o *op, source, t *track, from, to string) {
	await := func(path string) {
		e := r.touch(spot{path: path}, o.by)
		e.arrives = true
		r.await(e)
	}
	st, _ := lstat(to)
	unknown := !st.IsDir() && st.Nlink < 2 && source.isUnrecorded(from, false)
	if !unknown || entryNow(r.entries, to).known.Ino != 0 {
		await(to)
	}
	for _, rel := range o.below[from] {
		path := to + rel
		if st, exists := lstat(path); exists && !t.isUnrecorded(path, st.IsDir()) {
			await(path)
		}
	}
}

// removal returns the event of the removal of a path that had the state st. The file may be nil. to is
// where a symbolic link led.
func removal(t *track, path, to string, st event.Stat, f *file, by fusefs.Caller, when time.Time) fusefs.Event {
	ev := fusefs.Event{Op: event.OpUnlink, File: f, Caller: by, Path: t.rel(path), Target: to, Stat: st, Class: t.class(path, st.IsDir()), Time: when}
	if st.IsDir() {
		ev.Op, ev.File = event.OpRmdir, nil
	}
	ev.Class2 = ev.Class
	return ev
}

func (r *Recorder) unawait(e *entry) {
	if e.waits {
		e.waits = false
		r.journal.addSettled(e.path)
	}
}

// relinked updates the entries of a file's other names after a name was added or removed, which
// only changes the link count and the ctime.
func (r *Recorder) relinked(f *file) {
	for _, e := range r.byOtherNames(f, "") {
		st, exists := lstat(e.path)
		if !exists || !sameInode(st, e.known) {
			continue
		}
		e.known = relinkedAs(e.known, st)
	}
}

// shift updates the paths in the subtree of a renamed directory. If both is set, two directories
// were exchanged.
func (r *Recorder) shift(o *op, both bool) {
	from, to := o.from.path, o.to.path
	var moved []*entry
	for p, e := range r.entries {
		switch {
		case p == from || p == to:
		case within(p, from), both && within(p, to):
			moved = append(moved, e)
			delete(r.entries, p)
		case within(p, to): // the path was in the directory that had the new name before
			delete(r.entries, p)
			r.unawait(e)
		}
	}
	for _, e := range moved {
		awaited := e.waits
		r.unawait(e)
		e.path = shifted(e.path, from, to, both)
		r.entries[e.path] = e
		if awaited {
			r.await(e)
		}
	}
	a, b := o.a.rel(from), o.b.rel(to)
	for _, f := range o.a.files {
		f.moveNames(a, b, both)
	}
}

// shifted returns the new path of p after a directory was renamed or, if both is set, exchanged
// with another directory.
func shifted(p, from, to string, both bool) string {
	switch {
	case p == from || p == to:
	case within(p, from):
		return to + p[len(from):]
	case both && within(p, to):
		return from + p[len(to):]
	}
	return p
}
