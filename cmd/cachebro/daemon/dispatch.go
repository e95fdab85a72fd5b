package daemon

import (
	"context"
	"runtime/debug"
	"time"

	"cachebro/store/onwire"
	"cachebro/store/wire"
)

// slow is the duration above which a request is logged.
const slow = 2 * time.Second

// handle answers one request. If a handler panics, only its own request gets an error.
func (d *Daemon) handle(ctx context.Context, r *wire.Request) (result any, body []byte, err error) {
	d.requests.Add(1)
	began := time.Now()
	if d.mountKnown != nil && !withoutMount[r.Method] {
		select {
		case <-d.mountKnown:
		case <-ctx.Done():
			return nil, nil, wire.AsError(ctx.Err())
		}
	}
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
	h, ok := d.table[r.Method]
	if !ok {
		return nil, nil, wire.Errorf(wire.ErrUnsupported, "", "the store daemon does not know %q", r.Method)
	}
	result, body, err = h(ctx, r)
	if err != nil {
		return nil, nil, onwire.Error(err)
	}
	switch r.Method {
	case wire.MAttach:
		d.releaseRequests()
	case wire.MSession:
		var e wire.SessionEvent
		if r.Decode(&e) == nil && e.Event == "end" {
			d.sending.Ended()
		}
	}
	return result, body, nil
}
