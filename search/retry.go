package search

import (
	"path/filepath"
	"sync"
	"time"

	"github.com/blevesearch/bleve/v2/index/scorch"
)

// callbackName is the name of the callback that bleve calls when it could not write or merge a
// segment. bleve then retries at once, on all processors, and forever if the disk is full or the
// directory is gone. The callback slows the retries down.
const callbackName = "cachebro"

// A failed operation is retried after retryFirst, then after pauses that double up to retryLast.
const (
	retryFirst = time.Second
	retryLast  = time.Minute
)

// retries is the state of the retries of one index. The callback receives only the directory of the
// index, which is the key in retrying.
type retries struct {
	over   chan struct{} // closed together with the index, to end all pauses
	failed chan struct{} // closed at the first failure
	once   sync.Once     // closes failed

	// mu guards the fields below.
	mu    sync.Mutex
	pause time.Duration
	last  time.Time // when the last pause ended
}

// retrying holds the *retries of each index, by bleve's directory.
var retrying sync.Map

func newRetries() *retries { return &retries{over: make(chan struct{}), failed: make(chan struct{})} }

// mayRetry makes the callback pause after failures of the index in dir, until end is called.
func mayRetry(dir string) *retries {
	r := newRetries()
	retrying.Store(filepath.Join(dir, "store"), r)
	return r
}

// end ends a pause in progress, because bleve's Close waits for it.
func (r *retries) end() {
	if r != nil {
		close(r.over)
	}
}

func init() {
	scorch.RegistryAsyncErrorCallbacks[callbackName] = func(_ error, dir string) {
		r, _ := retrying.LoadOrStore(filepath.Clean(dir), newRetries())
		r.(*retries).wait()
	}
}

// wait pauses. If the last failure was recent, the pause is twice as long as the last pause.
func (r *retries) wait() {
	r.once.Do(func() { close(r.failed) })
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
