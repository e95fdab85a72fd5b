package supervisor

import (
	"context"
	"fmt"
	"sync"
	"time"

	"cachebro/fusefs"
	"cachebro/fusefs/mounts"
	"cachebro/fusefs/sourcewatch"
	"cachebro/fusefs/sys"
	"cachebro/store/leaf/event"
	"cachebro/store/leaf/loop"
	"cachebro/store/wire"
)

// mountd looks for ways in which processes can change the source without going through the mount:
// other mounts that lead to the source, and processes that used the source before it was mounted
// over. It looks repeatedly while such a way is in use, and immediately when its own mount table
// shows a new way. Mount tables of other namespaces cannot be watched, but a program that makes a
// namespace usually mounts something in this namespace too. One look takes about 10 ms.
const (
	outsideEvery   = 2 * time.Second  // between two looks while a way is in use
	namespaceEvery = 10 * time.Second // while no way is in use
	restingEvery   = time.Minute      // while nothing happens on the mount; the next record ends the pause
	// quietAfter is how long a way counts as used after the last event.
	quietAfter = 10 * time.Second
	// missedPause delays the check of all files after events were missed, because usually more
	// events are missed soon afterwards.
	missedPause = time.Second
	// idleAfter is how long a file open for writing must be unchanged before its content becomes a
	// version.
	idleAfter = time.Second
)

// edge finds the ways that bypass the mount and, while there are any, records the changes made
// through them. While no process uses such a way, the kernel may cache the files, provided that the
// source is watched: the watch reports the first use.
type edge struct {
	s *session
	// always is set if the source can always be reached without going through the mount.
	always bool
	// stirred receives a value when a process has changed the source without going through the
	// mount. Capacity 1; never closed.
	stirred chan struct{}

	// looking is held during a look and guards the fields from wasUsed to ended.
	looking sync.Mutex
	wasUsed bool // a process used the source directly at the last look
	used    bool // the state last reported to the overlay and the daemon
	watch   *sourcewatch.Watch
	marked  map[string]bool // mounts on which the watch reports opens
	tried   time.Time       // when starting a watch last failed
	ended   bool

	flushing sync.Mutex // held until the files removed from open are recorded; locked before mu

	// mu guards the fields below.
	mu    sync.Mutex
	last  time.Time           // of the last event
	lost  bool                // a call of checkFiles is scheduled
	open  map[string]openFile // files known to be open for writing in the source directly
	timer *time.Timer         // flushes open; nil if open is empty
}

// openFile is a file that a process writes, or has just made, without going through the mount.
type openFile struct {
	by      fusefs.Caller
	last    time.Time
	created bool // the file is newer than the last record of its path
}

func newEdge(s *session) *edge {
	return &edge{s: s, always: s.c.Private || !s.c.InPlace(), wasUsed: true, used: true, stirred: make(chan struct{}, 1), open: map[string]openFile{}}
}

// look finds the mounts and processes that bypass the mount, and tells the overlay and the daemon
// whether there are any.
func (e *edge) look() (outside []mounts.Proc) {
	e.looking.Lock()
	defer e.looking.Unlock()
	if e.always {
		e.start()
		e.use(true)
		return nil
	}
	ways := mounts.Beside(e.s.c.Mountpoint)
	var direct []mounts.Proc
	if e.wasUsed {
		direct = directUsers(e.s.c)
	}
	e.wasUsed = len(direct) > 0
	if len(ways)+len(direct) == 0 {
		e.unwatch()
		e.use(false)
		e.s.server.SetBypassable(e.s.link.unmounted())
		return nil
	}
	began := e.start()
	if began && !e.used { // changes made before the watch began are unknown
		e.use(true)
		e.s.link.missed()
	}
	if e.follow(ways) || began {
		ways = mounts.Beside(e.s.c.Mountpoint) // a mount may have been made before the watch began
	}
	e.s.server.SetBypassable(true)
	used := e.wasUsed || e.watch == nil || e.recently()
	for _, w := range ways {
		used = used || !w.Idle
	}
	e.use(used)
	return append(direct, ways...)
}

// restart calls look after the project was mounted again. Processes may have used the source directly
// in between, so it makes look search for such processes.
func (e *edge) restart() {
	if e.s.shared != "" || !mounts.FindsOutside {
		return
	}
	e.looking.Lock()
	e.wasUsed, e.used = true, true
	e.looking.Unlock()
	e.look()
}

// follow makes the watch report each open of a file through one of the mounts in ways. It returns
// true if one of these mounts is new.
func (e *edge) follow(ways []mounts.Proc) (news bool) {
	if e.watch == nil {
		return false
	}
	marked := map[string]bool{}
	for _, w := range ways {
		at := fmt.Sprintf("/proc/%d/root%s", w.PID, w.Path)
		marked[at] = true
		if !e.marked[at] {
			news = true
			_ = e.watch.WatchMount(at) // if this is not permitted, the first change is reported instead of the first open
		}
	}
	e.marked = marked
	return news
}

// use tells the overlay and the daemon whether a process uses a way that bypasses the mount. While
// a process does, the watch reports each write.
func (e *edge) use(on bool) {
	if e.watch != nil {
		if err := e.watch.WatchWriting(on); err != nil {
			e.s.logger.Warn("writes that bypass the mount are seen only when the file is closed", "error", err)
		}
	}
	if on != e.used {
		e.used = on
		e.s.setOutside(on)
	}
}

// inUse reports whether a process uses a way that bypasses the mount.
func (e *edge) inUse() bool {
	e.looking.Lock()
	defer e.looking.Unlock()
	return e.used
}

// markUsed marks the ways that bypass the mount as used. It reports whether they were unused
// before.
func (e *edge) markUsed() bool {
	e.looking.Lock()
	defer e.looking.Unlock()
	if e.used {
		return false
	}
	e.use(true)
	return true
}

// run calls look regularly until ctx ends. It also calls look at once after a value in changed, and
// soon after a value in mounted.
func (e *edge) run(ctx context.Context, resting func() bool, changed, mounted <-chan struct{}) {
	defer e.end()
	for looked := time.Now(); ; looked = time.Now() {
		wait := namespaceEvery
		switch {
		case resting():
			wait = restingEvery
		case e.inUse():
			wait = outsideEvery
		}
		if e.recently() { // look again soon, in order to notice when the way is no longer in use
			wait = min(wait, quietAfter)
		}
		t := time.NewTimer(wait)
	sleep:
		for soon := mounted; ; {
			select {
			case <-ctx.Done():
				t.Stop()
				return
			case <-e.stirred:
				if e.markUsed() {
					break sleep
				}
			case <-changed:
				break sleep
			case <-soon:
				soon = nil
				t.Reset(min(wait, max(0, namespaceEvery-time.Since(looked))))
			case <-t.C:
				break sleep
			}
		}
		t.Stop()
		began := time.Now()
		e.look()
		// Some machines mount and unmount all the time, for example for containers. This pause keeps
		// the time spent in look below a tenth of a processor.
		if !loop.Pause(ctx, min(9*time.Since(began), outsideEvery/4)) {
			return
		}
	}
}

// start begins to watch the source. It returns true if the source was not watched before.
func (e *edge) start() bool {
	if e.watch != nil || e.ended || time.Since(e.tried) < restingEvery {
		return false
	}
	w, err := sourcewatch.Start(e.s.handed.Source, e.handle, e.missed)
	if err != nil {
		e.tried = time.Now()
		e.s.logger.Info("the source cannot be watched: changes that bypass the mount are noticed only when the files are accessed or scanned", "why", err)
		return false
	}
	if !e.tried.IsZero() { // there may have been changes while the watch could not be started
		e.s.link.missed()
	}
	e.watch, e.marked = w, nil
	e.s.capture.Watched(true)
	e.s.link.setBypass(func(b *wire.Bypass) { b.Watched = true })
	e.s.link.hurry()
	return true
}

func (e *edge) unwatch() {
	if e.watch == nil {
		return
	}
	e.watch.Drain()
	e.watch.Close()
	e.watch = nil
	e.flush(0)
	e.s.capture.Watched(false)
	e.s.link.setBypass(func(b *wire.Bypass) { b.Watched = false })
	if !e.ended {
		e.s.link.hurry()
	}
}

// end ends the watch for good.
func (e *edge) end() {
	e.looking.Lock()
	defer e.looking.Unlock()
	e.ended = true
	e.unwatch()
}

// settle returns when all earlier changes that bypassed the mount are in the spool.
func (e *edge) settle() {
	e.looking.Lock()
	defer e.looking.Unlock()
	if e.watch != nil {
		e.watch.Drain()
		e.flush(0)
	}
}

// recently reports whether a process has used a way that bypasses the mount within quietAfter.
func (e *edge) recently() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.last.IsZero() && time.Since(e.last) < quietAfter
}

// missed is called when the watch has lost events. Since anything may have changed, it drops the
// kernel's caches, counts the loss as a change that bypassed the mount, and has all files checked.
func (e *edge) missed(why error) {
	e.s.logger.Warn("changes that bypassed the mount were missed, so all files are checked", "why", why)
	e.s.server.SetOutside(true)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last = time.Now()
	loop.Wake(e.stirred)
	if !e.lost {
		e.lost = true
		time.AfterFunc(missedPause, e.checkFiles)
	}
}

func (e *edge) checkFiles() {
	e.mu.Lock()
	e.lost = false
	e.mu.Unlock()
	e.s.link.missed()
	e.s.link.hurry()
}

func (e *edge) handle(events []sourcewatch.Event) {
	now := time.Now()
	e.mu.Lock()
	e.last = now
	e.mu.Unlock()
	loop.Wake(e.stirred)
	for _, ev := range events {
		// Events caused by the supervisor are ignored. It only closes files that it held for
		// mountd.
		if ev.Path != "" && !e.hidden(ev.Path) && ev.PID != int(e.s.supervisor.Load()) {
			e.take(ev, now)
		}
	}
}

// hidden reports whether a path is in the state directory, which is not part of the project.
func (e *edge) hidden(p string) bool {
	h := e.s.c.Hidden()
	return h != "" && mounts.Within("/"+p, "/"+h)
}

const (
	nameEvents = sourcewatch.Came | sourcewatch.Went | sourcewatch.Moved
	touching   = nameEvents | sourcewatch.Closed | sourcewatch.Changed | sourcewatch.Attributes
)

func (e *edge) take(ev sourcewatch.Event, now time.Time) {
	if ev.Op&touching == 0 {
		return
	}
	renamed := ev.Op&nameEvents == sourcewatch.Moved
	if renamed {
		e.s.server.Beside(ev.From, true, ev.Dir)
	}
	e.s.server.Beside(ev.Path, ev.Op&nameEvents != 0, ev.Dir)
	by, st := e.s.server.CallerOf(ev.PID), event.Stat{}
	if ev.Op&nameEvents != sourcewatch.Went { // if something new has this name by now, another event reports it
		st = e.stat(ev.Path)
	}
	held, made := e.trackWrite(ev, by, st, now)
	switch {
	case held:
	case renamed:
		e.s.capture.Beside(by, event.OpRename, ev.From, ev.Path, st)
	case ev.Op == sourcewatch.Came && ev.Dir:
		e.s.capture.Beside(by, event.OpMkdir, ev.Path, "", st)
	default:
		e.s.capture.Beside(by, foundAs(made || ev.Op&sourcewatch.Came != 0), ev.Path, "", st)
	}
}

// foundAs returns the operation to record for a path. If made is set, the path is new, otherwise it
// was changed.
func foundAs(made bool) event.Op {
	if made {
		return event.OpCreate
	}
	return event.OpOutside
}

// trackWrite updates the list of files being written. If held is set, the event needs no record
// now, because a version will be made when the file is closed or idle. If made is set, the file was
// made after the last record of its path.
func (e *edge) trackWrite(ev sourcewatch.Event, by fusefs.Caller, st event.Stat, now time.Time) (held, made bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if was, ok := e.open[ev.From]; ok && ev.From != "" {
		delete(e.open, ev.From)
		e.open[ev.Path] = was
		return false, false
	}
	if ev.Op&sourcewatch.Closed != 0 || !st.IsRegular() {
		made = e.open[ev.Path].created
		delete(e.open, ev.Path)
		return false, made
	}
	made = ev.Op&nameEvents == sourcewatch.Came && st.Nlink == 1
	if !made && ev.Op&sourcewatch.Changed == 0 {
		_, open := e.open[ev.Path]
		return open && ev.Op&nameEvents == 0, false
	}
	e.open[ev.Path] = openFile{by, now, made || e.open[ev.Path].created}
	if e.timer == nil {
		e.timer = time.AfterFunc(idleAfter, func() { e.flush(idleAfter) })
	}
	return true, false
}

// flush records the files in open that have not changed for at least the duration still.
func (e *edge) flush(still time.Duration) {
	e.flushing.Lock()
	defer e.flushing.Unlock()
	due := map[string]openFile{}
	e.mu.Lock()
	for p, o := range e.open {
		if time.Since(o.last) >= still {
			due[p] = o
			delete(e.open, p)
		}
	}
	e.timer = nil
	if len(e.open) > 0 {
		e.timer = time.AfterFunc(idleAfter, func() { e.flush(idleAfter) })
	}
	e.mu.Unlock()
	for p, o := range due {
		e.s.capture.Beside(o.by, foundAs(o.created), p, "", e.stat(p))
	}
}

// stat returns the attributes of a path of the source, or zero if it does not exist.
func (e *edge) stat(p string) event.Stat {
	var sx sys.Stat
	if sys.StatAt(int(e.s.handed.Source.Fd()), p, &sx) != nil {
		return event.Stat{}
	}
	return sx.Stat
}

// directUsers finds processes that bypass the mount because they had their working directory or an
// open file in the source before it was mounted over.
func directUsers(c Config) []mounts.Proc {
	return mounts.Scan(c.Root, overlayIDs(c.Mountpoint), false, mounts.Ours)
}

func overlayIDs(point string) map[int]bool {
	ids := map[int]bool{}
	overlays, err := mounts.Overlays()
	if err != nil {
		return ids
	}
	for _, m := range overlays {
		// An overlay inside the project counts too. A process on that overlay does not use the part
		// of the source that the overlay hides.
		if mounts.Within(m.Point, point) {
			ids[m.ID] = true
		}
	}
	return ids
}
