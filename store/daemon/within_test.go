package daemon

import (
	"errors"
	"testing"
	"time"
)

// A library that never comes back from its Close must not keep the process, and
// with it the project's lock.
func TestWithin(t *testing.T) {
	broken := errors.New("broken")
	if err := within(time.Minute, "close", func() error { return broken }); !errors.Is(err, broken) {
		t.Errorf("got %v, wanted the error of the call", err)
	}
	never := make(chan struct{})
	defer close(never)
	if err := within(time.Millisecond, "close", func() error { <-never; return nil }); err == nil {
		t.Error("waited for ever and called it well")
	}
}
