// Package retry repeats system calls that a signal interrupted. Go's runtime sends signals to its
// own threads, so such interruptions are frequent. It keeps no state.
package retry

import "syscall"

// Call calls f, and calls it again as long as it returns EINTR.
func Call(f func() error) error {
	_, err := Value(func() (struct{}, error) { return struct{}{}, f() })
	return err
}

// Value is Call for a function that also returns a value.
func Value[T any](f func() (T, error)) (v T, err error) {
	for {
		v, err = f()
		if err != syscall.EINTR {
			return v, err
		}
	}
}
