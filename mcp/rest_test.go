package mcp

import (
	"context"
	"io"
	"os"
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

// While the daemon cannot be started, a subscription does not start it every
// second; once nobody is subscribed nothing is asked.
func TestSubscriptionWithoutDaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials := 0
		s, err := newServer(Options{Root: t.TempDir(), In: os.Stdin, Out: io.Discard, Dial: func(ctx context.Context) (Caller, error) {
			dials++
			return noDaemon(ctx)
		}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		sub := subscriber{}
		s.watchers[sub] = &watcher{sess: sub, seen: make(map[string]string)}
		s.watching = true
		s.look(ctx)
		if dials < 10 || dials > 150 {
			t.Errorf("%d times dialled in an hour", dials)
		}
		s.back.end()
		s.back.close()
	})
}
