package mcp

import (
	"context"
	"io"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/server"
)

// subscriber is a session with one subscription.
type subscriber struct {
	server.SessionWithResourceSubscriptions
}

func (subscriber) SubscribedResources() []string { return []string{uriStatus} }

// While the daemon cannot be started, a subscription does not try to start it every second. After
// the last subscription has ended, no request is sent.
func TestSubscriptionWithoutDaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int64
		s, err := newServer(Options{Root: t.TempDir(), In: os.Stdin, Out: io.Discard, Dial: func(ctx context.Context) (Caller, error) {
			dials.Add(1)
			return noDaemon(ctx)
		}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		sub := subscriber{}
		s.watchers[sub] = &watcher{sess: sub, texts: make(map[string]string)}
		s.watching = true
		s.pollResources(ctx)
		if n := dials.Load(); n < 10 || n > 150 {
			t.Errorf("%d times dialled in an hour", n)
		}
		s.backend.end()
		s.backend.close()
	})
}
