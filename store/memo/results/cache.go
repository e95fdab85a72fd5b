package results

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// defaultTTL is how long an entry is valid by default.
const defaultTTL = 5 * time.Minute

// defaultTools returns the tools whose answers are cached. They only read. Other tools are off.
func defaultTools() map[string]bool {
	return map[string]bool{"read": true, "ls": true, "search": true, "memo": true, "context": true, "edit": false, "shell": false}
}

// Options configure a Cache. With the zero value, it uses only memory and the default tools.
type Options struct {
	Stores []Store          // in the order in which they are queried; nil: one Memory
	TTL    time.Duration    // 0: defaultTTL
	Tools  map[string]bool  // nil: defaultTools
	Now    func() time.Time // nil: time.Now
	// Log receives a line per call at level debug, with tool, key and outcome, but never arguments
	// or values. nil: no log.
	Log *slog.Logger
}

// Cache returns cached answers and computes missing ones.
type Cache struct {
	o      Options
	counts counters

	mu     sync.Mutex // guards flying
	flying map[string]*flight
}

// flight is a call whose answer is being computed.
type flight struct {
	done   chan struct{} // closed once the fields below are set
	answer Answer
	err    error
}

// New returns a cache.
func New(o Options) *Cache {
	if len(o.Stores) == 0 {
		o.Stores = []Store{NewMemory(0)}
	}
	o.TTL = cmp.Or(o.TTL, defaultTTL)
	if o.Tools == nil {
		o.Tools = defaultTools()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Cache{o: o, counts: counters{tools: map[string]*Counts{}, stores: map[string]int64{}}, flying: map[string]*flight{}}
}

// Call is a request for an answer.
type Call struct {
	Tool string
	Args any           // everything that the answer depends on, except Uses; encodes to JSON
	TTL  time.Duration // 0: the cache's default
	// Holds reports whether all of uses still have the recorded versions. If it is nil, entries
	// become invalid only by age.
	Holds func(ctx context.Context, uses []Used) bool
	// Compute computes the answer.
	Compute func(ctx context.Context) (Answer, error)
}

// Answer is the result of Compute.
type Answer struct {
	Value []byte
	Uses  []Used
	// Once means that the answer is valid now but must not be cached, because its input was
	// changing.
	Once bool
}

// Do answers a call from a store if one has a valid entry, and otherwise computes the answer. hit
// is true if this call computed nothing. The value must not be changed.
func (c *Cache) Do(ctx context.Context, call Call) (value []byte, hit bool, err error) {
	if !c.o.Tools[call.Tool] {
		c.counts.add(call.Tool, func(n *Counts) { n.Bypassed++ })
		a, err := call.Compute(ctx)
		return a.Value, false, err
	}
	key, full, err := Key(call.Tool, call.Args)
	if err != nil {
		return nil, false, err
	}
	for {
		if e, ok := c.lookup(ctx, &call, key, full, c.o.Stores); ok {
			return c.hit(call.Tool, key, e)
		}
		c.mu.Lock()
		f, joined := c.flying[full]
		if !joined {
			f = &flight{done: make(chan struct{})}
			c.flying[full] = f
		}
		c.mu.Unlock()
		if !joined {
			// Look again, because a flight may have ended after the first look-up.
			if e, ok := c.lookup(ctx, &call, key, full, c.o.Stores[:1]); ok {
				f.answer = Answer{Value: e.Value, Uses: e.Uses}
				c.land(full, f)
				return c.hit(call.Tool, key, e)
			}
			c.counts.add(call.Tool, func(n *Counts) { n.Misses++ })
			c.log(call.Tool, key, "miss")
			c.compute(ctx, &call, key, full, f)
			return f.answer.Value, false, f.err
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			return nil, false, ctx.Err()
		}
		if f.err != nil {
			if errors.Is(f.err, context.Canceled) || errors.Is(f.err, context.DeadlineExceeded) || errors.Is(f.err, errPanic) {
				continue // the caller that computed was cancelled, but this one was not
			}
			return nil, false, f.err
		}
		// The computation may have begun before a write that this call must see.
		if !f.answer.Once && (call.Holds == nil || call.Holds(ctx, f.answer.Uses)) {
			c.counts.add(call.Tool, func(n *Counts) { n.Joined++ })
			c.log(call.Tool, key, "joined")
			return f.answer.Value, true, nil
		}
		if f.answer.Once {
			c.counts.add(call.Tool, func(n *Counts) { n.Misses++ })
			c.log(call.Tool, key, "once")
			a, err := call.Compute(ctx)
			return a.Value, false, err
		}
	}
}

var errPanic = errors.New("the computation of the answer panicked")

// compute runs call.Compute, stores the answer and ends the flight.
func (c *Cache) compute(ctx context.Context, call *Call, key, full string, f *flight) {
	f.err = errPanic
	defer c.land(full, f)
	f.answer, f.err = call.Compute(ctx)
	if f.err != nil {
		c.counts.add(call.Tool, func(n *Counts) { n.Errors++ })
		return
	}
	if !f.answer.Once {
		c.put(ctx, call, key, Entry{Key: full, At: c.o.Now(), Uses: f.answer.Uses, Value: f.answer.Value}, c.o.Stores)
	}
}

// land ends a flight. Waiting callers then check its result.
func (c *Cache) land(full string, f *flight) {
	c.mu.Lock()
	delete(c.flying, full)
	c.mu.Unlock()
	close(f.done)
}

func (c *Cache) hit(tool, key string, e Entry) ([]byte, bool, error) {
	c.counts.add(tool, func(n *Counts) { n.Hits++ })
	c.log(tool, key, "hit")
	return e.Value, true, nil
}

func (c *Cache) ttl(call *Call) time.Duration {
	if call.TTL != 0 {
		return call.TTL
	}
	return c.o.TTL
}

// lookup queries the stores in order. It copies a found entry to the stores that lack it.
func (c *Cache) lookup(ctx context.Context, call *Call, key, full string, stores []Store) (Entry, bool) {
	now, ttl := c.o.Now(), c.ttl(call)
	for i, s := range stores {
		e, ok, err := s.Get(ctx, key)
		if err != nil {
			c.counts.store(s.Name() + " failed")
			c.o.Log.Debug("result", "tool", call.Tool, "key", key, "store", s.Name(), "err", err)
			continue
		}
		age := now.Sub(e.At)
		if !ok || e.Key != full || age > ttl || age < -ttl {
			continue
		}
		if call.Holds != nil && !call.Holds(ctx, e.Uses) {
			c.counts.add(call.Tool, func(n *Counts) { n.Stale++ })
			continue // another store may have a newer one
		}
		c.counts.store(s.Name())
		c.put(ctx, call, key, e, c.o.Stores[:i])
		return e, true
	}
	return Entry{}, false
}

func (c *Cache) put(ctx context.Context, call *Call, key string, e Entry, stores []Store) {
	left := c.ttl(call) - c.o.Now().Sub(e.At)
	for _, s := range stores {
		if err := s.Set(ctx, key, e, left); err != nil {
			c.counts.store(s.Name() + " failed")
			c.o.Log.Debug("result", "tool", call.Tool, "key", key, "store", s.Name(), "set", fmt.Sprint(err))
		}
	}
}

// Get returns the entry of a call. It checks the uses only if call.Holds is set; callers that do
// not set it check the uses themselves.
func (c *Cache) Get(ctx context.Context, call Call) (Entry, bool) {
	key, full, err := Key(call.Tool, call.Args)
	if err != nil || !c.o.Tools[call.Tool] {
		return Entry{}, false
	}
	return c.lookup(ctx, &call, key, full, c.o.Stores)
}

// Put stores an answer that was computed elsewhere.
func (c *Cache) Put(ctx context.Context, call Call, a Answer) error {
	key, full, err := Key(call.Tool, call.Args)
	if err != nil || !c.o.Tools[call.Tool] {
		return err
	}
	c.put(ctx, &call, key, Entry{Key: full, At: c.o.Now(), Uses: a.Uses, Value: a.Value}, c.o.Stores)
	return nil
}

// Clear empties every store.
func (c *Cache) Clear(ctx context.Context) error {
	var errs []error
	for _, s := range c.o.Stores {
		if err := s.Clear(ctx); err != nil {
			errs = append(errs, fmt.Errorf("clear %s: %w", s.Name(), err))
		}
	}
	return errors.Join(errs...)
}

func (c *Cache) log(tool, key, outcome string) {
	c.o.Log.Debug("result", "tool", tool, "key", key, "outcome", outcome)
}
