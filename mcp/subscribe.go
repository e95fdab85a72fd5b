package mcp

import (
	"context"
	"slices"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// watchEvery is the interval for polling subscribed resources, because the daemon sends no
// notifications. Without a subscription there is no timer. While the daemon does not answer, pauses
// double up to watchLast, because each request may start the daemon.
const (
	watchEvery = time.Second
	watchLast  = 30 * time.Second
)

// watcher is a session that has subscribed or is about to.
type watcher struct {
	sess  server.SessionWithResourceSubscriptions
	texts map[string]string // uri → text at the last poll
	idle  int               // rounds without a subscription
}

// watch begins to poll the resources that the request's session subscribes to.
func (s *Server) watch(ctx context.Context) {
	sess, ok := server.ClientSessionFromContext(ctx).(server.SessionWithResourceSubscriptions)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.watchers[sess]; w != nil {
		w.idle = 0
		return
	}
	s.watchers[sess] = &watcher{sess: sess, texts: make(map[string]string)}
	if !s.watching {
		s.watching = true
		// Poll as long as the server runs, not only during the request.
		s.work.Go(func() { s.look(s.backend.life) })
	}
}

// look polls while there is a subscription.
func (s *Server) look(ctx context.Context) {
	for pause := watchEvery; ; {
		if s.lookOnce(ctx) {
			pause = watchEvery
		} else {
			pause = min(2*pause, watchLast)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		s.mu.Lock()
		if len(s.watchers) == 0 {
			s.watching = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
	}
}

// lookOnce renders each subscribed resource and notifies the sessions that last saw another text.
// It reports whether the daemon answered.
func (s *Server) lookOnce(ctx context.Context) bool {
	answered := true
	s.mu.Lock()
	watchers := make([]*watcher, 0, len(s.watchers))
	for sess, w := range s.watchers {
		uris := w.sess.SubscribedResources()
		if len(uris) > 0 {
			w.idle = 0
		} else if w.idle++; w.idle > 5 { // the subscription is registered shortly after watch is called
			delete(s.watchers, sess)
			continue
		}
		watchers = append(watchers, w)
	}
	s.mu.Unlock()
	now := make(map[string]string)
	for _, w := range watchers {
		uris := w.sess.SubscribedResources()
		for uri := range w.texts {
			if !slices.Contains(uris, uri) {
				delete(w.texts, uri)
			}
		}
		for _, uri := range uris {
			t, ok := now[uri]
			if !ok {
				var err error
				t, err = s.resource(ctx, uri)
				if err != nil {
					answered = answered && !unreachable(err)
					continue // nothing to compare
				}
				now[uri] = t
			}
			before, known := w.texts[uri]
			w.texts[uri] = t
			if known && before != t {
				s.updated(w.sess, uri)
			}
		}
	}
	return answered
}

func (s *Server) updated(sess server.ClientSession, uri string) {
	n := mcp.JSONRPCNotification{JSONRPC: mcp.JSONRPC_VERSION, Notification: mcp.Notification{
		Method: mcp.MethodNotificationResourceUpdated,
		Params: mcp.NotificationParams{AdditionalFields: map[string]any{"uri": uri}},
	}}
	select {
	case sess.NotificationChannel() <- n:
	default: // the client does not read its notifications
		s.opt.Logger.Debug("notification dropped", "uri", uri)
	}
}
