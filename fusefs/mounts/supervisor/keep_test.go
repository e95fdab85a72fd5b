package supervisor

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A supervisor that ends immediately, or cannot be started, must not be started again and again as
// fast as the machine can. The first restart has no pause. When it had a pause of 10 ms, a kill of
// the supervisor and then of mountd left a dead mount.
func TestSupervisorThatEndsAtOnce(t *testing.T) {
	const gone = 1 << 30 // larger than any pid
	for name, failure := range map[string]error{"ends": nil, "does not start": errors.New("no such file")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				starts, began, first := 0, time.Now(), time.Duration(0)
				keepRunning(ctx, gone, func() (int, error) {
					if starts++; starts == 1 {
						first = time.Since(began)
					}
					if starts == 1000 {
						cancel()
					}
					return gone, failure
				})
				if first > 0 {
					t.Errorf("the first was started after %v", first)
				}
				if starts < 10 || starts > 100 {
					t.Errorf("%d starts in an hour", starts)
				}
			})
		})
	}
}
