package onwire

import (
	"context"

	"cachebro/store/wire"
)

// Decoded makes a handler from a function that needs only the params of a request.
func Decoded[Q, A any](h func(context.Context, Q) (A, []byte, error)) wire.Handler {
	return WithRequest(func(ctx context.Context, _ *wire.Request, q Q) (any, []byte, error) { return h(ctx, q) })
}

// WithRequest makes a handler from a function that needs the params of a request, and the request
// itself.
func WithRequest[Q any](h func(context.Context, *wire.Request, Q) (any, []byte, error)) wire.Handler {
	return func(ctx context.Context, r *wire.Request) (any, []byte, error) {
		var q Q
		if err := r.Decode(&q); err != nil {
			return nil, nil, err
		}
		return h(ctx, r, q)
	}
}
