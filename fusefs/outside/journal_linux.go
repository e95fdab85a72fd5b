//go:build linux && (amd64 || arm64)

package outside

import (
	"cmp"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"cachebro/fusefs"
	"cachebro/fusefs/capture"
	"cachebro/store/leaf/event"
	"cachebro/store/leaf/spool"
)

// journal holds the system calls that the recorder has let through and that are in no history yet.
// If the recorder is killed, the next recorder reads the journal. An entry is in the page cache
// before its call is let through, so a kill loses nothing.
//
// The journal is a separate spool with absolute paths. Its records have these meanings:
//
//   - KindMount: a history that is written to (Source).
//   - KindProcess: a process that made one of these calls.
//   - KindDirty: the recorder waits for the result of calls on a path. Stat is the state before the
//     calls. HasContent means that the file was opened for writing, OpChmod that its attributes may
//     change, and OpRename that another file is moved there. Idle means that the recorder no longer
//     waits.
//   - KindVersion: a call on names, such as a rename. Node is the thread. An OpBaseline before it
//     describes the file that had the new name.
//   - KindContent: the call with the number in For is in its history, or failed.
type journal struct {
	log            *slog.Logger
	dir            string
	w              *spool.Writer
	unwritten      []*spool.Record
	urgent         bool // an unwritten entry must be written before a call is let through
	failed         bool
	procs          map[processKey]*fusefs.Process
	commandWritten map[processKey]bool // processes whose command was written too
}

type processKey struct {
	pid   uint32
	start uint64
}

// maxJournal is the size in bytes above which the journal is rewritten with only the entries still
// needed.
const maxJournal = 8 << 20

// openJournal opens the journal and reads the entries that the last recorder left in it.
func openJournal(state string, log *slog.Logger) (*journal, *leftJournal, error) {
	j := &journal{log: log, dir: filepath.Join(state, journalName), procs: map[processKey]*fusefs.Process{}, commandWritten: map[processKey]bool{}}
	var err error
	j.w, err = spool.OpenWriter(j.dir, spool.Options{Volatile: true})
	if err != nil {
		return nil, nil, err
	}
	l := newLeftJournal()
	if err := readSpool(j.dir, l.take); err != nil {
		log.Warn("the journal of a killed recorder could not be read completely", "error", err)
	}
	return j, l, nil
}

func readSpool(dir string, take func(*spool.Record)) error {
	r, err := spool.OpenReader(dir, spool.Position{})
	if err != nil {
		return err
	}
	defer r.Close()
	var damaged error
	for {
		rec, err := r.TryNext()
		switch {
		case errors.As(err, new(*spool.CorruptError)):
			damaged = err
		case err != nil:
			return err
		case rec == nil:
			return damaged
		default:
			take(rec)
		}
	}
}

// close closes and removes the journal. All calls in the journal must be in their histories.
func (j *journal) close() error { return errors.Join(j.w.Close(), os.RemoveAll(j.dir)) }

func (j *journal) add(rs ...*spool.Record) { j.unwritten = append(j.unwritten, rs...) }

// addCaller adds the caller to a record, and adds records of new processes among the caller and its
// ancestors.
func (j *journal) addCaller(c fusefs.Caller, r *spool.Record) *spool.Record {
	r.PID, r.UID = c.PID, c.UID
	var fresh []*spool.Record
	for p := c.Proc; p != nil; p = p.Parent {
		key := processKey{p.PID, p.Start}
		was := j.procs[key]
		sameProgram := was != nil && was.Comm == p.Comm && was.Image == p.Image
		if sameProgram && (j.commandWritten[key] || p.Command() == nil) {
			break
		}
		j.procs[key], j.commandWritten[key] = p, p.Command() != nil
		fresh = append(fresh, capture.ProcessRecord(p, 0))
	}
	slices.Reverse(fresh)
	j.add(fresh...)
	if c.Proc != nil {
		r.PID, r.Start = c.Proc.PID, c.Proc.Start
	}
	return r
}

// addAwaited adds an entry which states that the recorder waits for the result of calls on e's
// path.
func (j *journal) addAwaited(e *entry) {
	r := &spool.Record{Kind: spool.KindDirty, HasContent: len(e.writers) > 0, Path: e.path, Stat: e.known, Time: e.when.UnixNano()}
	switch {
	case e.arrives:
		r.Op = event.OpRename
	case e.altered:
		r.Op = event.OpChmod
	}
	j.add(j.addCaller(e.writer(), r))
	j.urgent = true
}

// addSettled adds an entry which states that the recorder no longer waits for the result of calls
// on a path.
func (j *journal) addSettled(path string) {
	j.add(&spool.Record{Kind: spool.KindDirty, Path: path, Idle: true})
}

func (j *journal) addCall(o *op) {
	if o.to.exists {
		j.add(&spool.Record{Kind: spool.KindVersion, Op: event.OpBaseline, Path: o.to.path, Stat: o.to.st})
	}
	o.noted = j.addCaller(o.by, &spool.Record{Kind: spool.KindVersion, Op: o.op, Path: o.from.path, Path2: o.to.path, Target: o.target, Stat: o.from.st, Node: uint64(o.tid), Time: o.when.UnixNano()})
	j.add(o.noted)
	j.urgent = true
}

// addEnded adds an entry which states that a call is in its history, or failed.
func (j *journal) addEnded(o *op) {
	if o.noted != nil && o.noted.Seq > 0 {
		j.add(&spool.Record{Kind: spool.KindContent, For: o.noted.Seq})
	}
}

// flush writes all entries if an entry is urgent or there are many.
func (j *journal) flush() {
	if !j.urgent && len(j.unwritten) < 100 {
		return
	}
	_, err := j.w.Append(j.unwritten...)
	if err != nil && !j.failed {
		j.log.Warn("the journal cannot be written: a kill of the recorder would lose pending changes", "error", err)
	}
	j.failed = err != nil
	clear(j.unwritten)
	j.unwritten, j.urgent = j.unwritten[:0], false
}

// tidy writes all entries. If the journal is large, tidy also rewrites it: the function again adds
// the entries that are still needed, and tidy then drops all older ones.
func (j *journal) tidy(again func()) {
	j.urgent = len(j.unwritten) > 0
	j.flush()
	if j.w.Size() < maxJournal {
		return
	}
	r, err := spool.OpenReader(j.dir, spool.Position{})
	if err != nil {
		return
	}
	defer r.Close()
	head, err := r.Head()
	if err != nil {
		return
	}
	clear(j.unwritten)
	j.unwritten = j.unwritten[:0]
	clear(j.procs)
	clear(j.commandWritten)
	again()
	j.urgent = true
	j.flush()
	if !j.failed {
		_ = r.Release(head)
	}
}

// leftJournal holds the entries that a killed recorder left in its journal.
type leftJournal struct {
	roots  []string
	procs  map[processKey]*spool.Record
	known  map[processKey]*fusefs.Process
	waits  map[string]*spool.Record // by path: the paths whose results the recorder waited for
	calls  map[uint64]leftCall      // by number: the calls that are in no history yet
	before *spool.Record            // the last OpBaseline, which belongs to the call that follows
}

// leftCall is a call on names. before describes the file that had the new name, if any.
type leftCall struct{ call, before *spool.Record }

func newLeftJournal() *leftJournal {
	return &leftJournal{procs: map[processKey]*spool.Record{}, known: map[processKey]*fusefs.Process{}, waits: map[string]*spool.Record{}, calls: map[uint64]leftCall{}}
}

func (l *leftJournal) take(r *spool.Record) {
	switch r.Kind {
	case spool.KindMount:
		if !slices.Contains(l.roots, r.Source) {
			l.roots = append(l.roots, r.Source)
		}
	case spool.KindProcess:
		l.procs[processKey{r.PID, r.Start}] = r
	case spool.KindDirty:
		l.waits[r.Path] = r
		if r.Idle {
			delete(l.waits, r.Path)
		}
	case spool.KindVersion:
		if r.Op == event.OpBaseline {
			l.before = r
			return
		}
		c := leftCall{call: r}
		if l.before != nil && l.before.Path == r.Path2 && l.before.Seq == r.Seq-1 {
			c.before = l.before
		}
		l.calls[r.Seq] = c
	case spool.KindContent:
		delete(l.calls, r.For)
	}
}

func (l *leftJournal) caller(r *spool.Record) fusefs.Caller {
	return fusefs.Caller{PID: r.PID, UID: r.UID, Proc: l.process(processKey{r.PID, r.Start})}
}

func (l *leftJournal) process(key processKey) *fusefs.Process {
	if p := l.known[key]; p != nil {
		return p
	}
	r := l.procs[key]
	if r == nil {
		return nil
	}
	p := &fusefs.Process{PID: r.PID, Start: r.Start, UID: r.UID, Comm: r.Comm, Group: r.Group, Session: r.Session}
	if r.Args != "" {
		p.SetCommand(&fusefs.Command{Args: func() string { return r.Args }, Dir: r.Dir})
	}
	l.known[key] = p
	p.Parent = l.process(processKey{r.PPID, r.PStart})
	return p
}

// spooled holds the records of a killed recorder in the spool of a history.
type spooled struct {
	versions map[string]*spool.Record // the last version of each path
	calls    map[spooledCall]bool
	contents map[uint64]bool // versions whose content is in the spool
}

type spooledCall struct {
	path string
	when int64
}

func (s *spooled) take(r *spool.Record) {
	switch r.Kind {
	case spool.KindVersion:
		s.versions[r.Path] = r
		s.calls[spooledCall{r.Path, r.Time}] = true
	case spool.KindContent:
		s.contents[r.For] = true
	}
}

// recover continues where a killed recorder stopped.
func (r *Recorder) recover(l *leftJournal) {
	recordsOf := map[*track]*spooled{}
	for _, root := range l.roots {
		t, err := r.trackAt(root)
		if err != nil {
			r.o.Logger.Warn("the last changes in a project may be missing from its history", "root", root, "error", err)
			continue
		}
		recordsOf[t] = r.keepAgain(t, l)
	}
	for _, c := range slices.SortedFunc(maps.Values(l.calls), func(a, b leftCall) int { return cmp.Compare(a.call.Seq, b.call.Seq) }) {
		o := r.leftOp(l, c)
		if s := recordsOf[o.a]; s == nil || !s.calls[spooledCall{o.a.rel(o.from.path), c.call.Time}] {
			r.addOp(o)
		}
	}
	for _, w := range slices.SortedFunc(maps.Values(l.waits), func(a, b *spool.Record) int { return cmp.Compare(a.Seq, b.Seq) }) {
		e := r.touch(spot{path: w.Path, st: w.Stat, exists: w.Stat.Ino != 0}, l.caller(w))
		e.when = timeOf(w)
		e.altered, e.arrives = w.Op == event.OpChmod, w.Op == event.OpRename
		if w.HasContent {
			e.written(e.by)
		}
		st, exists := lstat(w.Path)
		if s := recordsOf[e.track]; s != nil {
			rel := e.track.rel(w.Path)
			if v := s.versions[rel]; v != nil && v.Time == w.Time && exists && unchanged(v.Stat, st) {
				e.known = st
				continue
			}
		}
		r.await(e)
	}
	r.confirm(0)
	r.journal.flush()
}

// leftOp makes an op of a call that a killed recorder had let through.
func (r *Recorder) leftOp(l *leftJournal, c leftCall) *op {
	o := &op{op: c.call.Op, from: spot{c.call.Path, c.call.Stat, true}, to: spot{path: c.call.Path2}, target: c.call.Target, by: l.caller(c.call), when: timeOf(c.call), tid: uint32(c.call.Node)}
	o.a = r.trackOf(o.from.path)
	o.file = o.a.fileOf(o.from.path, o.from.st)
	if o.to.path == "" {
		return o
	}
	o.b = r.trackOf(o.to.path)
	if c.before != nil {
		o.to.st, o.to.exists = c.before.Stat, true
		o.replaced = o.b.fileOf(o.to.path, o.to.st)
	}
	if o.a == o.b && o.op != event.OpLink {
		o.file.moving(o.a.rel(o.to.path))
	}
	return o
}

// keepAgain saves the contents that a killed recorder was about to save, if the files still have
// these contents. It returns the records that the killed recorder had written.
func (r *Recorder) keepAgain(t *track, l *leftJournal) *spooled {
	s := &spooled{versions: map[string]*spool.Record{}, calls: map[spooledCall]bool{}, contents: map[uint64]bool{}}
	if err := readSpool(t.writer.Dir(), s.take); err != nil {
		r.o.Logger.Warn("the records of a killed recorder could not be read completely", "root", t.root, "error", err)
	}
	for _, v := range s.versions {
		if !v.HasContent || s.contents[v.Seq] || v.Op == event.OpBaseline {
			continue
		}
		path := t.abs(v.Path)
		if st, exists := lstat(path); exists && st.IsRegular() && unchanged(st, v.Stat) {
			by := l.caller(v)
			t.capture.Closed(fusefs.Closed{File: t.fileOf(path, st), Caller: by, Writer: by, Op: v.Op, Stat: st, TailFrom: -1, LastPath: v.Path, Time: timeOf(v)})
		}
	}
	return s
}
