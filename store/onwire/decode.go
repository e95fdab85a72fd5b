package onwire

import (
	"context"

	"cachebro/store/wire"
)

// Decoded makes a handler from a function that needs only the params of a request.
func Decoded[Q, A any](h func(context.Context, Q) (A, []byte, error)) wire.Handler {
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
