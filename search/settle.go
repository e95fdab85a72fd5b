package search

import (
	"context"
	"time"

	"cachebro/store"
)

// If a file is saved many times in quick succession, only the first and the last save are worth
// analysing. So the follower indexes a file's first save at once. Saves that follow within
// settleTime wait until the file has not been saved for settleTime. A save waits at most for
// maxSettle.
//
// While its saves wait, the file is loose: every exact query reads it, and a ranked query first
// indexes it (see settleFor). A save that was not indexed before a crash is noticed when the index
// is loaded, because the file's record has another hash.
const (
	settleTime = 2 * time.Second
	maxSettle  = 30 * time.Second
)

// held is a file whose newest versions wait to be indexed.
type held struct {
	since, last time.Time // times of the waiting versions
}

func (h held) due(settle time.Duration) time.Time {
	a, b := h.last.Add(settle), h.since.Add(maxSettle)
	if a.Before(b) {
		return a
	}
	return b
}

// passes reports whether a version at the end of the log need not be indexed now. If so, passes
// updates the table. There are four cases:
// - the index already has the version's content
// - the version waits for later saves
// - the version deletes an indexed file
// - the path was never indexed and no longer exists
//
// The caller holds x.write.
func (x *Index) passes(v store.Version, settle time.Duration) bool {
	if !x.searchable(v) {
		x.mu.Lock()
		defer x.mu.Unlock()
		_, waits := x.held[v.Path]
		f, known := x.files[v.Path]
		gone := v.Deleted() && !v.Excluded()
		if known && f.indexed && !waits && gone {
			x.removeLocked(v.Path, f, v.Time)
			return true
		}
		_, binary := x.binary[v.Path]
		return !known && !binary && !waits
	}
	now := time.Now()
	x.mu.Lock()
	defer x.mu.Unlock()
	was, known := x.files[v.Path]
	if !known {
		return x.returnsLocked(v)
	}
	f := was
	f.seq, f.time = v.Seq, v.Time
	if was.indexed && was.hash == v.Blob {
		x.setLocked(v.Path, &f)
		return true
	}
	h, waits := x.held[v.Path]
	ripe := !was.indexed || now.Sub(x.taken[v.Path]) > settle
	if waits {
		ripe = !now.Before(h.due(settle))
	}
	if ripe {
		return false
	}
	if !waits {
		h.since = now
	}
	h.last = now
	f.size, f.indexed = v.Stat.Size, false
	x.held[v.Path] = h
	x.setLocked(v.Path, &f)
	return true
}

// ripe returns the newest versions of files that have waited long enough. It also drops old entries
// of x.taken. The caller holds x.write.
func (x *Index) ripe(settle time.Duration) (vs []store.Version, err error) {
	now := time.Now()
	var paths []store.Path
	x.mu.Lock()
	for p, h := range x.held {
		if settle == 0 || !now.Before(h.due(settle)) {
			paths = append(paths, p)
		}
	}
	for p, t := range x.taken {
		if now.Sub(t) > settleTime {
			delete(x.taken, p)
		}
	}
	x.mu.Unlock()
	for _, p := range paths {
		v, found, err := x.corpus.Current(p)
		if err != nil {
			return nil, err
		}
		if !found {
			v = store.Version{Path: p, Op: store.OpUnlink}
		}
		vs = append(vs, v)
	}
	return vs, nil
}

// due returns a channel that receives a value when the first waiting file is due, or nil if no file
// is waiting.
func (f *follower) due() <-chan time.Time {
	f.x.mu.RLock()
	defer f.x.mu.RUnlock()
	var first time.Time
	for _, h := range f.x.held {
		if d := h.due(settleTime); first.IsZero() || d.Before(first) {
			first = d
		}
	}
	if first.IsZero() {
		return nil
	}
	return time.After(time.Until(first))
}

const (
	askedFiles = 50                     // if more versions are waiting, a ranked query does not wait for them
	askedWait  = 100 * time.Millisecond // how long a ranked query waits for the follower to finish writing
)

// settleFor indexes the newest versions that a ranked query would miss, if there are only a few. If
// there are many, or indexing takes too long, the query continues without them.
func (x *Index) settleFor(ctx context.Context) {
	x.mu.RLock()
	behind := uint64(len(x.held))
	ready, seq := x.ready, x.seq
	x.mu.RUnlock()
	if newest := x.corpus.Seq(); newest > seq {
		behind += newest - seq
	}
	if !ready || behind == 0 || behind > askedFiles || x.Suspended() {
		return
	}
	for end := time.Now().Add(askedWait); !x.write.TryLock(); time.Sleep(time.Millisecond) {
		if ctx.Err() != nil || time.Now().After(end) {
			return
		}
	}
	defer x.write.Unlock()
	if err := x.catchUpLocked(ctx, 0, func() bool { return true }); err != nil && ctx.Err() == nil {
		x.opt.Logger.Debug("search: index for a query", "err", err) // the follower tries again and reports the error
	}
}
