package reads

import (
	"context"
	"sync"
	"time"

	"cachebro/store"
	"cachebro/store/leaf/loop"
)

// waitingReads holds reads that were made through tools and are not in the working set yet. Adding
// a read takes a transaction of the store. A batch of versions may hold the store's lock for tens
// of milliseconds, and a reader must not wait that long. The waiting reads are added before a
// working set is used. The zero value is usable.
type waitingReads struct {
	mu      sync.Mutex // guards waiting
	waiting map[readBy]noted
	// entering is held while reads are added to the set. If the holder finds nothing waiting, all
	// reads have been added. It is locked before mu.
	entering sync.Mutex
}

type readBy struct {
	session store.SessionID
	tool    string
}

// noted holds the paths that a tool read, one entry per read, and the time of the last read.
type noted struct {
	at    int64
	paths []store.Path
}

const (
	// readsPause bounds how long reads wait, and thereby how many a crash loses.
	readsPause = 100 * time.Millisecond
	// maxToolReads is the number of waiting reads of one tool at which they are added immediately.
	maxToolReads = 256
)

// add records a read. full says that the waiting reads must be added to the set now.
func (t *waitingReads) add(session store.SessionID, tool string, at int64, p store.Path) (full bool) {
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

// Flush adds the waiting reads to the set. When it returns, every read recorded before the call is
// in the store.
func (ws *WorkingSets) Flush() {
	t := &ws.waiting
	t.entering.Lock()
	defer t.entering.Unlock()
	t.mu.Lock()
	waiting := t.waiting
	t.waiting = nil
	t.mu.Unlock()
	for by, n := range waiting {
		if err := ws.store.Sessions.NoteReads(by.session, by.tool, n.at, n.paths); err != nil {
			ws.log.Warn("reads", "err", err)
		}
	}
}

// Run adds reads to the set shortly after they were recorded, and the last ones when ctx ends.
func (ws *WorkingSets) Run(ctx context.Context) {
	for {
		select {
		case <-ws.news:
			loop.Pause(ctx, readsPause)
			ws.Flush()
		case <-ctx.Done():
			ws.Flush()
			return
		}
	}
}

// Of returns what a session has read and edited so far.
func (ws *WorkingSets) Of(session store.SessionID) ([]store.WorkingFile, error) {
	ws.Flush()
	return ws.store.Sessions.WorkingSet(session)
}

// NoteToolRead records a read through a tool for the session's working set.
func (ws *WorkingSets) NoteToolRead(session store.SessionID, tool string, p store.Path) {
	if ws.waiting.add(session, tool, time.Now().UnixNano(), p) {
		ws.Flush()
	}
	loop.Wake(ws.news)
	ws.pairs.Read("s:"+string(session), time.Now().UnixNano(), string(p))
}
