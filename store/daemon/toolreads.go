package daemon

import (
	"context"
	"sync"
	"time"

	"cachebro/store"
	"cachebro/store/daemon/waits"
)

// toolReads are reads through tools that are not in the working set yet. To
// enter one takes a transaction of the store, whose lock a batch of versions may
// hold for tens of milliseconds; a reader must not wait for that. Whoever asks
// for a working set has them entered first. The zero value is usable.
type toolReads struct {
	mu      sync.Mutex // guards waiting
	waiting map[readBy]noted
	// entering is held while they are entered, so that who finds nothing waiting
	// knows that nothing is on its way either. It comes before mu.
	entering sync.Mutex
}

// readBy is a session's tool.
type readBy struct {
	session store.SessionID
	tool    string
}

// noted are the paths that it read, one entry a read, and when last.
type noted struct {
	at    int64
	paths []store.Path
}

const (
	// readsPause is for how long reads may wait: a crash forgets no more.
	readsPause = 100 * time.Millisecond
	// maxToolReads of one tool are entered by the read that brings the last.
	maxToolReads = 256
)

// add notes a read; full: it is time to enter them.
func (t *toolReads) add(session store.SessionID, tool string, at int64, p store.Path) (full bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting == nil {
		t.waiting = map[readBy]noted{}
	}
	by := readBy{session, tool}
	n := t.waiting[by]
	n.at, n.paths = max(n.at, at), append(n.paths, p)
	t.waiting[by] = n
	return len(n.paths) >= maxToolReads
}

// enterReads enters what is waiting; after it, everything noted before is there.
func (d *Daemon) enterReads() {
	t := &d.toolReads
	t.entering.Lock()
	defer t.entering.Unlock()
	t.mu.Lock()
	waiting := t.waiting
	t.waiting = nil
	t.mu.Unlock()
	for by, n := range waiting {
		if err := d.store.NoteReads(by.session, by.tool, n.at, n.paths); err != nil {
			d.log.Warn("reads", "err", err)
		}
	}
}

// followReads enters reads a moment after they came, and the last of them at the
// end.
func (d *Daemon) followReads(ctx context.Context) {
	for {
		select {
		case <-d.readsNews:
			waits.Sleep(ctx, readsPause)
			d.enterReads()
		case <-ctx.Done():
			d.enterReads()
			return
		}
	}
}

// touches is what a session has read and edited so far.
func (d *Daemon) touches(session store.SessionID) ([]store.Touch, error) {
	d.enterReads()
	return d.store.WorkingSet(session)
}
