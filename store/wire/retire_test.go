package wire

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// An idle daemon ends while clients may be about to send requests. No request is lost, done
// twice, or fails, including those that must not be repeated.
func TestRetireLosesNothing(t *testing.T) {
	paths, root := testPaths(t)
	var done atomic.Int64
	handler := func(context.Context, *Request) (any, []byte, error) { done.Add(1); return nil, nil, nil }
	d := serveTest(t, paths, root, "1", handler)
	var stop atomic.Bool
	var asked atomic.Int64
	var clients sync.WaitGroup
	for range 4 {
		c := dialTest(t, paths, root)
		dial := c.open
		c.open = func(ctx context.Context) (*clientConn, error) { // as in a client that starts a daemon
			for {
				cc, err := dial(ctx)
				if !errors.Is(err, ErrNoDaemon) {
					return cc, err
				}
				select {
				case <-ctx.Done():
					return nil, err
				case <-time.After(time.Millisecond):
				}
			}
		}
		clients.Go(func() {
			for !stop.Load() {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				_, err := c.Call(ctx, MSpend, Empty{}, []byte("a body"), nil)
				cancel()
				if err != nil {
					t.Errorf("call %d: %v", asked.Load(), err)
					return
				}
				asked.Add(1)
			}
		})
	}
	for range 50 {
		for from := asked.Load(); asked.Load() < from+8 && !t.Failed(); {
			time.Sleep(time.Millisecond)
		}
		d.srv.Retire()
		d.stop()
		d = serveTest(t, paths, root, "1", handler)
	}
	stop.Store(true)
	clients.Wait()
	if asked.Load() != done.Load() {
		t.Errorf("%d requests were answered, %d were carried out", asked.Load(), done.Load())
	}
}
