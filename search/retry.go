package search

import (
	"path/filepath"
	"sync"
	"time"

	"github.com/blevesearch/bleve/v2/index/scorch"
)

// slowly names what bleve calls when it could not write or merge a segment. bleve
// tries again at once, and for ever with all processors where the disk is full or the
// directory is gone; this call slows it down.
const slowly = "cachebro"

// What failed is tried again after retryFirst, then after twice as long each
// time, but no later than retryLast.
const (
	retryFirst = time.Second
	retryLast  = time.Minute
)

// retries is the failures of one index's library. bleve names an index in the
// call by its directory alone.
type retries struct {
	over chan struct{} // closed when the index is: nobody may pause any more

	// mu guards what follows.
	mu    sync.Mutex
	pause time.Duration
	last  time.Time // when the last pause ended
}

// retrying holds the *retries of each index by bleve's directory.
var retrying sync.Map

// mayRetry lets bleve's index in dir pause after failures until end is called.
func mayRetry(dir string) *retries {
	r := &retries{over: make(chan struct{})}
	retrying.Store(filepath.Join(dir, "store"), r)
	return r
}

// end ends a pause under way: bleve's Close waits for it.
func (r *retries) end() {
	if r != nil {
		close(r.over)
	}
}

func init() {
	scorch.RegistryAsyncErrorCallbacks[slowly] = func(_ error, dir string) {
		r, _ := retrying.LoadOrStore(filepath.Clean(dir), &retries{over: make(chan struct{})})
		r.(*retries).wait()
	}
}

// wait pauses; longer when the last failure was a moment ago.
func (r *retries) wait() {
	r.mu.Lock()
	if time.Since(r.last) > 2*retryLast {
		r.pause = 0
	}
	r.pause = min(max(2*r.pause, retryFirst), retryLast)
	pause := r.pause
	r.mu.Unlock()
	select {
	case <-r.over:
	case <-time.After(pause):
	}
	r.mu.Lock()
	r.last = time.Now()
	r.mu.Unlock()
}
