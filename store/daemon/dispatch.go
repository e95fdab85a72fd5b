package daemon

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"cachebro/store"
	"cachebro/store/wire"
)

// slow is from when on a request is worth a line in the log.
const slow = 2 * time.Second

// handle answers one request. A handler that panics costs its request an error
// and nobody else anything.
func (d *Daemon) handle(ctx context.Context, r *wire.Request) (result any, body []byte, err error) {
	d.requests.Add(1)
	began := time.Now()
	defer func() {
		if p := recover(); p != nil {
			d.panics.Add(1)
			d.log.Error("panic", "method", r.Method, "panic", p, "stack", string(debug.Stack()))
			result, body = nil, nil
			err = wire.Errorf(wire.ErrInternal, "look at "+wire.LogFile(d.state), "%s failed inside the store daemon", r.Method)
		}
		if took := time.Since(began); took > slow {
			d.log.Warn("slow", "method", r.Method, "client", r.Hello.Client, "took", took.Round(time.Millisecond), "err", err)
		}
	}()
	h, ok := d.handler(r.Method)
	if !ok {
		return nil, nil, wire.Errorf(wire.ErrUnsupported, "", "the store daemon does not know %q", r.Method)
	}
	result, body, err = h(ctx, r)
	if err != nil {
		return nil, nil, storeError(err)
	}
	return result, body, nil
}

// on decodes the params of a handler that needs nothing else of the request.
func on[Q, A any](h func(context.Context, Q) (A, []byte, error)) wire.Handler {
	return func(ctx context.Context, r *wire.Request) (any, []byte, error) {
		var q Q
		if err := r.Decode(&q); err != nil {
			return nil, nil, err
		}
		a, body, err := h(ctx, q)
		if err != nil {
			return nil, nil, err
		}
		return a, body, nil
	}
}

// storeError gives an error of the store its code on the wire.
func storeError(err error) error {
	var already *wire.Error
	if err == nil || errors.As(err, &already) {
		return err
	}
	for _, m := range []struct {
		from error
		to   *wire.Error
	}{
		{store.ErrNotFound, wire.ErrNotFound}, {store.ErrPruned, wire.ErrPruned}, {store.ErrNoSpace, wire.ErrNoSpace},
		{store.ErrDamaged, wire.ErrDamaged}, {store.ErrNewer, wire.ErrNewer}, {store.ErrLocked, wire.ErrLocked},
		{store.ErrTooLarge, wire.ErrTooLarge}, {store.ErrClosed, wire.ErrNoDaemon},
	} {
		if errors.Is(err, m.from) {
			return &wire.Error{Code: m.to.Code, Message: err.Error(), Hint: store.Hint(err)}
		}
	}
	return fmt.Errorf("store: %w", err)
}
