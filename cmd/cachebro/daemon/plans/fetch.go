package plans

import (
	"context"
	"sync"
	"time"

	"cachebro/store"
	"cachebro/store/wire"
)

// contents caches, for recent plans, which step writes which content. Without it, each fetch would
// read the journalled plan again, which takes minutes for 10,000 steps. For the newest large plan
// it also caches the contents themselves for a while.
type contents struct {
	// mu guards the fields below.
	mu    sync.Mutex
	blobs map[string]map[int]store.Hash // plan → step → content
	order []string
	read  map[store.Hash][]byte
}

const maxPlans = 8

func (t *contents) get(id string) (map[int]store.Hash, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m, ok := t.blobs[id]
	return m, ok
}

func (t *contents) put(p *store.Plan, read map[store.Hash][]byte) map[int]store.Hash {
	m := make(map[int]store.Hash)
	for _, s := range p.Steps {
		if s.Do == store.DoWrite {
			m[s.N] = s.Blob
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.blobs == nil {
		t.blobs = map[string]map[int]store.Hash{}
	}
	if _, ok := t.blobs[p.ID]; !ok {
		t.order = append(t.order, p.ID)
	}
	t.blobs[p.ID] = m
	if len(p.Steps) >= manySteps {
		t.read = read
	}
	if len(t.order) > maxPlans {
		delete(t.blobs, t.order[0])
		t.order = t.order[1:]
	}
	return m
}

// take returns a cached content and drops it from the cache.
func (t *contents) take(h store.Hash) ([]byte, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	b, ok := t.read[h]
	delete(t.read, h)
	return b, ok
}

func (t *contents) dropRead() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.read = nil
}

// fetchBytes bounds an answer with more than one content, in bytes. A single content may be larger.
const fetchBytes = 1 << 20

func (pl *Plans) planFetch(_ context.Context, q wire.PlanFetch) (wire.PlanContents, []byte, error) {
	var out wire.PlanContents
	blobs, ok := pl.recent.get(q.ID)
	if !ok {
		p, err := pl.Store.Journal.Plan(q.ID)
		if err != nil {
			return out, nil, err
		}
		blobs = pl.recent.put(&p, nil)
	}
	pl.pauseIndex(len(blobs))
	var body []byte
	for i, n := range q.N {
		h, ok := blobs[n]
		if !ok {
			return out, nil, wire.Errorf(wire.ErrNotFound, "", "step %d of plan %s writes nothing", n, q.ID)
		}
		b, ok := pl.recent.take(h)
		var err error
		if !ok {
			b, err = pl.Store.Content(h)
		}
		if i > 0 && (err != nil || len(body)+len(b) > fetchBytes) {
			break // the client requests it again
		}
		if err != nil {
			return out, nil, err
		}
		body, out.Sizes = append(body, b...), append(out.Sizes, len(b))
	}
	return out, body, nil
}

const (
	// A plan of at least manySteps steps makes the index wait until pauseFor after the last request
	// about the plan. Indexing thousands of files while they are written would take as long as
	// writing them.
	manySteps = 200
	pauseFor  = 2 * time.Second
)

// indexPause stops the index from ingesting versions. The pause ends by itself.
type indexPause struct {
	// mu guards the fields below.
	mu      sync.Mutex
	release func()
	timer   *time.Timer
}

// pauseIndex is called at each request of a client that carries out a plan with this many steps.
func (pl *Plans) pauseIndex(steps int) {
	r := &pl.pause
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.release != nil:
		r.timer.Reset(pauseFor)
	case steps >= manySteps:
		r.release = pl.Hold()
		r.timer = time.AfterFunc(pauseFor, func() {
			pl.recent.dropRead()
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.release != nil {
				r.release()
				r.release = nil
			}
		})
	}
}
