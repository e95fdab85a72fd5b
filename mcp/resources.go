package mcp

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"cachebro/store/leaf/loop"
	"cachebro/store/wire"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

const (
	uriStatus  = "cachebro://status"
	uriSet     = "cachebro://working-set"
	uriMetrics = "cachebro://metrics"
	uriHistory = "cachebro://history/"
)

// maxHistories is how many files changed by our tools are listed as resources.
const maxHistories = 20

// addResources registers resources that contain what some of the tools return. The client itself
// reads a resource, so no schema takes room in the model's context.
func (s *Server) addResources() {
	for _, r := range []struct{ uri, name, desc string }{
		{uriStatus, "status", "Files tracked, tokens saved, mount and store"},
		{uriSet, "working-set", "Files touched, with edit counts and times"},
		{uriMetrics, "metrics", "Tokens per tool"},
	} {
		s.rpc.AddResource(mcp.NewResource(r.uri, r.name, mcp.WithResourceDescription(r.desc), mcp.WithMIMEType("text/plain")), s.readResource)
	}
	tmpl := mcp.NewResourceTemplate(uriHistory+"{+path}", "history",
		mcp.WithTemplateDescription("Versions of one file, oldest first"), mcp.WithTemplateMIMEType("text/plain"))
	s.rpc.AddResourceTemplate(tmpl, s.readResource)
}

func (s *Server) readResource(ctx context.Context, req mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
	t, err := s.resource(ctx, req.Params.URI)
	if err != nil {
		if h := wire.Hint(err); h != "" {
			err = errors.New(err.Error() + " (" + h + ")")
		}
		return nil, err
	}
	return []mcp.ResourceContents{mcp.TextResourceContents{URI: req.Params.URI, MIMEType: "text/plain", Text: t}}, nil
}

func (s *Server) resource(ctx context.Context, uri string) (string, error) {
	switch uri {
	case uriStatus:
		st, err := s.status(ctx)
		if err != nil {
			return "", err
		}
		return st.String(), nil
	case uriSet:
		ws, err := s.workingSet(ctx, s.conn(ctx))
		if err != nil {
			return "", err
		}
		return s.workingSetText(ws), nil
	case uriMetrics:
		m, err := s.metrics(ctx, wire.MetricsQuery{})
		if err != nil {
			return "", err
		}
		return metricsText(m), nil
	}
	p, ok := strings.CutPrefix(uri, uriHistory)
	if !ok {
		return "", badInput("no resource "+quote(uri), "resources/list names them")
	}
	if dec, err := url.PathUnescape(p); err == nil {
		p = dec
	}
	if p == "" {
		return "", badInput("the path is missing", uriHistory+"src/main.go")
	}
	rel, err := s.resolve(p)
	if err != nil {
		return "", err
	}
	q := wire.LogQuery{Limit: 200, Baselines: true, Path: []byte(rel)}
	vs, gaps, err := s.history(ctx, q, "", nil)
	if err != nil {
		return "", err
	}
	return s.historyText(vs, gaps, p), nil
}

// listHistory adds a file that one of our tools changed to resources/list, which holds the newest
// maxHistories. mcp-go notifies clients.
func (s *Server) listHistory(rel string) {
	if s != s.start {
		return // the URI of a resource names no project, so only the first project's files are listed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.listed, rel) {
		return
	}
	s.listed = append(s.listed, rel)
	var old []string
	if n := len(s.listed) - maxHistories; n > 0 {
		old = s.listed[:n]
		s.listed = slices.Clone(s.listed[n:])
	}
	for i := range old {
		old[i] = historyURI(old[i])
	}
	if len(old) > 0 {
		s.rpc.DeleteResources(old...)
	}
	r := mcp.NewResource(historyURI(rel), "history of "+quote(rel), mcp.WithMIMEType("text/plain"))
	s.rpc.AddResources(server.ServerResource{Resource: r, Handler: s.readResource})
}

func historyURI(rel string) string {
	return uriHistory + (&url.URL{Path: rel}).EscapedPath()
}

// The daemon sends no notifications, so the server polls subscribed resources every watchEvery.
// Without a subscription there is no timer. While the daemon does not answer, pauses double up to
// watchLast, because each request may start the daemon.
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
		s.work.Go(func() { s.pollResources(s.backend.life) })
	}
}

// pollResources polls while there is a subscription.
func (s *Server) pollResources(ctx context.Context) {
	for pause := watchEvery; ; {
		if s.pollOnce(ctx) {
			pause = watchEvery
		} else {
			pause = min(2*pause, watchLast)
		}
		if !loop.Pause(ctx, pause) {
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

// pollOnce renders each subscribed resource and notifies the sessions that last saw another text.
// It reports whether the daemon answered.
func (s *Server) pollOnce(ctx context.Context) bool {
	answered := true
	s.mu.Lock()
	watchers := make([]*watcher, 0, len(s.watchers))
	for sess, w := range s.watchers {
		uris := w.sess.SubscribedResources()
		if len(uris) > 0 {
			w.idle = 0
		} else if w.idle++; w.idle > 5 { // allow a few rounds, because the subscription is registered shortly after watch is called
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

// pathCompletions completes the path of cachebro://history/{+path}, directory by directory.
type pathCompletions struct{ s *Server }

// maxCompletions is the protocol's own limit.
const maxCompletions = 100

func (p pathCompletions) CompleteResourceArgument(_ context.Context, uri string, arg mcp.CompleteArgument, _ mcp.CompleteContext) (*mcp.Completion, error) {
	none := &mcp.Completion{Values: []string{}}
	if arg.Name != "path" || !strings.HasPrefix(uri, uriHistory) {
		return none, nil
	}
	dir, prefix := path.Split(arg.Value)
	rel := ""
	if dir != "" {
		var err error
		rel, err = p.s.resolve(dir)
		if err != nil {
			return none, nil
		}
	}
	root, err := os.OpenRoot(p.s.dir())
	if err != nil {
		return none, nil
	}
	defer root.Close()
	items, err := entries(root, rel)
	if err != nil {
		return none, nil
	}
	var found []string
	for _, it := range items {
		if strings.HasPrefix(it, prefix) && it != ".git/" && quote(it) == it {
			found = append(found, dir+it)
		}
	}
	slices.Sort(found)
	if len(found) == 0 {
		return none, nil
	}
	n := min(len(found), maxCompletions)
	return &mcp.Completion{Values: found[:n], Total: len(found), HasMore: len(found) > n}, nil
}
