package mcp

import (
	"context"
	"errors"
	"sync"
	"time"

	"cachebro/store/wire"
)

// How long a tool call waits for the daemon. A read can fall back on the disk, so it does not wait
// long. Other questions wait longer, because the daemon may have to scan the project first.
const (
	readWait   = 2 * time.Second
	askWait    = 30 * time.Second
	noteWait   = 500 * time.Millisecond
	retryAfter = 10 * time.Second
)

// backend is the tools' connection to the daemon, dialled when first needed. After the daemon
// failed to answer, it gets no request for a while, so that a hung daemon costs one wait instead of
// one per call.
type backend struct {
	dial func(context.Context) (Caller, error)
	// life is the context of a dial. It ends with Serve, not with the call that began the dial.
	life context.Context
	end  context.CancelFunc

	mu     sync.Mutex // guards the fields below
	client Caller
	flight chan struct{} // closed when the dial in progress has ended
	err    error         // of the last dial
	resume time.Time     // until then, reads and notes send no request
}

func newBackend(o *Options) *backend {
	life, end := context.WithCancel(context.Background())
	return &backend{dial: o.Dial, life: life, end: end}
}

// get returns the client, dialling at most once at a time. The dial continues when its
// caller gives up, because the next caller can use the daemon that it starts.
func (b *backend) get(ctx context.Context) (Caller, error) {
	b.mu.Lock()
	if b.client != nil {
		c := b.client
		b.mu.Unlock()
		return c, nil
	}
	flight := b.flight
	if flight == nil {
		flight = make(chan struct{})
		b.flight = flight
		go func() {
			dctx, cancel := context.WithTimeout(b.life, askWait)
			defer cancel()
			c, err := b.dial(dctx)
			b.mu.Lock()
			b.client, b.err = c, err
			b.flight = nil
			b.mu.Unlock()
			close(flight)
		}()
	}
	b.mu.Unlock()
	select {
	case <-flight:
	case <-ctx.Done():
		return nil, wire.AsError(ctx.Err())
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.client == nil {
		if b.err == nil {
			return nil, wire.ErrNoDaemon
		}
		return nil, b.err
	}
	return b.client, nil
}

// close cancels a dial in progress and waits for it, so that no goroutine outlives Serve.
func (b *backend) close() {
	b.end()
	b.mu.Lock()
	flight := b.flight
	b.mu.Unlock()
	if flight != nil {
		<-flight
	}
}

// ask sends a request that only the daemon can answer.
func (b *backend) ask(ctx context.Context, method string, params any, body []byte, result any) ([]byte, error) {
	return b.call(ctx, askWait, method, params, body, result)
}

// try sends a request for which the caller has a fallback. After the daemon failed to answer, it
// fails at once for a while.
func (b *backend) try(ctx context.Context, wait time.Duration, method string, params any, body []byte, result any) ([]byte, error) {
	b.mu.Lock()
	rest := time.Now().Before(b.resume)
	b.mu.Unlock()
	if rest {
		return nil, wire.ErrTimeout
	}
	return b.call(ctx, wait, method, params, body, result)
}

func (b *backend) call(ctx context.Context, wait time.Duration, method string, params any, body []byte, result any) ([]byte, error) {
	tctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	c, err := b.get(tctx)
	if err == nil {
		body, err = c.Call(tctx, method, params, body, result)
	}
	if ctx.Err() != nil {
		return nil, wire.AsError(ctx.Err())
	}
	b.mu.Lock()
	switch {
	case unreachable(err):
		b.resume = time.Now().Add(retryAfter)
		if b.dial != nil && errors.Is(err, wire.ErrNoDaemon) {
			b.client = nil // the next request dials again, which may start the daemon
		}
	case b.resume != time.Time{}:
		b.resume = time.Time{}
	}
	b.mu.Unlock()
	return body, err
}

// unreachable reports whether an error means that the daemon gave no answer, not even an error.
func unreachable(err error) bool {
	if err == nil {
		return false
	}
	for _, no := range []error{wire.ErrNoDaemon, wire.ErrTimeout, wire.ErrVersion, wire.ErrLocked,
		wire.ErrDamaged, wire.ErrNewer, wire.ErrNoSpace, wire.ErrInternal, wire.ErrForeign} {
		if errors.Is(err, no) {
			return true
		}
	}
	var e *wire.Error
	return !errors.As(err, &e)
}
