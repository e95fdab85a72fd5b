// Package sleep pauses a goroutine until a context ends, and wakes one that waits. Loops that cannot
// wait for an event use it between two looks. It holds no lock.
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

// Wake wakes the goroutine that receives from ch, now or when it next does. ch has a capacity of 1.
// Wake never blocks.
func Wake(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default: // a wake-up is already pending
	}
}
