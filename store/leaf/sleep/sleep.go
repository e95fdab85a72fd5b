// Package sleep pauses a goroutine until a context ends. Loops that cannot wait for an event use it
// between two looks. It holds no lock.
package sleep

import (
	"context"
	"time"
)

// For waits for d. It returns false if ctx ended before that.
func For(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
