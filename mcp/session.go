package mcp

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// session is the client at the other end of stdio. Clients of older protocol revisions subscribe to
// each resource and get every list_changed notification. Since revision 2026-07-28, each
// subscriptions/listen request opens a stream, which gets the notifications that match its filter,
// tagged with the request's id.
type session struct {
	id   string
	out  chan mcp.JSONRPCNotification // never closed; drained by the stdio loop
	init atomic.Bool
	info atomic.Pointer[mcp.Implementation]
	caps atomic.Pointer[mcp.ClientCapabilities]
	ver  atomic.Pointer[string]
	log  atomic.Pointer[mcp.LoggingLevel]

	mu      sync.Mutex
	uris    map[string]bool // by resources/subscribe
	streams []*stream
}

// stream is one open subscriptions/listen request. Its notifications come between its
// acknowledgement and its answer.
type stream struct {
	id     any
	filter mcp.SubscriptionFilter
	begun  chan struct{} // closed after the acknowledgement
}

func (st *stream) open() bool {
	select {
	case <-st.begun:
		return true
	default:
		return false
	}
}

var (
	_ server.SessionWithLogging               = (*session)(nil)
	_ server.SessionWithClientInfo            = (*session)(nil)
	_ server.SessionWithResourceSubscriptions = (*session)(nil)
	_ server.SessionWithSubscriptionFilter    = (*session)(nil)
	_ server.SessionWithProtocolVersion       = (*session)(nil)
)

func (s *session) SessionID() string                                   { return s.id }
func (s *session) Initialize()                                         { s.init.Store(true) }
func (s *session) Initialized() bool                                   { return s.init.Load() }
func (s *session) NotificationChannel() chan<- mcp.JSONRPCNotification { return s.out }
func (s *session) SetClientInfo(i mcp.Implementation)                  { s.info.Store(&i) }
func (s *session) SetClientCapabilities(c mcp.ClientCapabilities)      { s.caps.Store(&c) }
func (s *session) SetProtocolVersion(v string)                         { s.ver.Store(&v) }
func (s *session) SetLogLevel(l mcp.LoggingLevel)                      { s.log.Store(&l) }
func (s *session) GetClientInfo() mcp.Implementation                   { return load(&s.info) }
func (s *session) GetClientCapabilities() mcp.ClientCapabilities       { return load(&s.caps) }
func (s *session) ProtocolVersion() string                             { return load(&s.ver) }
func (s *session) GetLogLevel() mcp.LoggingLevel {
	if p := s.log.Load(); p != nil {
		return *p
	}
	return mcp.LoggingLevelError
}

func load[T any](p *atomic.Pointer[T]) (zero T) {
	if v := p.Load(); v != nil {
		return *v
	}
	return zero
}

func (s *session) SubscribeToResource(uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uris[uri] = true
}

func (s *session) UnsubscribeFromResource(uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.uris, uri)
}

func (s *session) SubscribedResources() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	uris := slices.Collect(maps.Keys(s.uris))
	for _, st := range s.streams {
		uris = append(uris, st.filter.ResourceSubscriptions...)
	}
	slices.Sort(uris)
	return slices.Compact(uris)
}

func (s *session) IsSubscribedToResource(uri string) bool {
	return slices.Contains(s.SubscribedResources(), uri)
}

// SetSubscriptionFilter does nothing. mcp-go has one filter per session, but the stdio loop, which
// knows the request ids, has one per stream.
func (s *session) SetSubscriptionFilter(mcp.SubscriptionFilter) {}

// SubscriptionFilter returns the union of the open streams' filters.
func (s *session) SubscriptionFilter() (all mcp.SubscriptionFilter, active bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.streams {
		all.ToolsListChanged = all.ToolsListChanged || st.filter.ToolsListChanged
		all.ResourcesListChanged = all.ResourcesListChanged || st.filter.ResourcesListChanged
	}
	return all, len(s.streams) > 0
}

func (s *session) openStream(id any, filter mcp.SubscriptionFilter) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := &stream{id: id, filter: filter, begun: make(chan struct{})}
	s.streams = append(s.streams, st)
	return st
}

func (s *session) openStreams() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.streams)
}

func (s *session) closeStream(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams = slices.DeleteFunc(s.streams, func(other *stream) bool { return other == st })
}

// copies returns the notifications to send for n: n itself, or one copy for each stream that asked
// for it. A notification about one request (progress, a stream's acknowledgement) is sent once. The
// caller holds the output's lock until the copies are written.
func (s *session) copies(n mcp.JSONRPCNotification) []mcp.JSONRPCNotification {
	s.mu.Lock()
	defer s.mu.Unlock()
	var wants func(mcp.SubscriptionFilter) bool
	switch n.Method {
	case mcp.MethodNotificationToolsListChanged:
		wants = func(f mcp.SubscriptionFilter) bool { return f.ToolsListChanged }
	case mcp.MethodNotificationResourcesListChanged:
		wants = func(f mcp.SubscriptionFilter) bool { return f.ResourcesListChanged }
	case mcp.MethodNotificationResourceUpdated:
		uri, _ := n.Params.AdditionalFields["uri"].(string)
		wants = func(f mcp.SubscriptionFilter) bool { return slices.Contains(f.ResourceSubscriptions, uri) }
	case mcp.MethodNotificationSubscriptionsAcknowledged:
		for _, st := range s.streams {
			if st.id == n.Params.Meta[mcp.MetaKeySubscriptionID] && !st.open() {
				close(st.begun)
				break
			}
		}
		return []mcp.JSONRPCNotification{n}
	default:
		return []mcp.JSONRPCNotification{n}
	}
	if len(s.streams) == 0 && s.ver.Load() != nil { // a client of an older revision, after its handshake
		return []mcp.JSONRPCNotification{n}
	}
	var out []mcp.JSONRPCNotification
	for _, st := range s.streams {
		if st.open() && wants(st.filter) {
			c := n
			c.Params.Meta = map[string]any{mcp.MetaKeySubscriptionID: st.id}
			out = append(out, c)
		}
	}
	return out
}
