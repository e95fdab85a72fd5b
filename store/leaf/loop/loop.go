// Package loop has what loops share: pauses that end with a context, wake-ups, and the repetition of
// interrupted system calls. It keeps no state.
package loop

import (
	"context"
	"syscall"
	"time"
)

// Pause waits for d. It returns false if ctx ended before that.
func Pause(ctx context.Context, d time.Duration) bool {
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

// Retry calls f, and calls it again as long as a signal interrupts it (EINTR). Go's runtime sends
// signals to its own threads, so such interruptions are frequent.
func Retry(f func() error) error {
	_, err := RetryValue(func() (struct{}, error) { return struct{}{}, f() })
	return err
}

// RetryValue is Retry for a function that also returns a value.
func RetryValue[T any](f func() (T, error)) (v T, err error) {
	for {
		v, err = f()
		if err != syscall.EINTR {
			return v, err
		}
	}
}
