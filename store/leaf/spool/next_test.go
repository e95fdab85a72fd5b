package spool

import (
	"context"
	"time"
)

// Next returns the next record and waits for one if needed. Errors are those of the context,
// *CorruptError (call again), or an errno of reading.
func (r *Reader) Next(ctx context.Context) (*Record, error) {
	for {
		rec, err := r.TryNext()
		if rec != nil || err != nil {
			return rec, err
		}
		if err := r.wait(ctx, time.Minute); err != nil {
			return nil, err
		}
	}
}
