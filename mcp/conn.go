package mcp

import (
	"context"
	"os"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"cachebro/store/wire"
)

// The keys under which clients send the id that their hooks use for the call. Codex's is callId.
// Codex also sends the calling thread, and the number of its context window, which grows with each
// compaction.
const (
	toolUseKey = "claudecode/toolUseId"
	callKey    = "callId"
	threadKey  = "threadId"
	sessionKey = "sessionId"
	windowKey  = "windowId"
)

// maxConns bounds the remembered HTTP connections. A forgotten connection gets full texts again.
const maxConns = 256

// conn is the state of one connection.
type conn struct {
	id string

	mu      sync.Mutex      // guards the fields below
	fresh   map[string]bool // the paths that were sent since the client cleared its cache
	cleared bool
}

// conn returns the connection of a request, or nil for an HTTP request of protocol revision
// 2026-07-28 or later, which belongs to no connection.
func (s *Server) conn(ctx context.Context) *conn {
	sess := server.ClientSessionFromContext(ctx)
	if sess == nil || sess.SessionID() == "" {
		return nil
	}
	if _, stdio := sess.(*session); !stdio && server.IsModernRequest(ctx) {
		return nil
	}
	return s.conns.GetOr(sess.SessionID(), func() *conn { return &conn{id: "mcp-" + s.id + "-" + randomID()} })
}

// reader identifies the context window that makes the call. A tool-use id has precedence over the
// connection. A client that sends such ids runs its sub-agents over one connection, and each
// sub-agent is a separate reader. The session from the environment is not used, because under
// --continue no hook reports it.
func (s *Server) reader(ctx context.Context, meta *mcp.Meta) wire.Reader {
	if meta != nil {
		if id, _ := meta.AdditionalFields[toolUseKey].(string); id != "" && len(id) <= 200 {
			return wire.Reader{ToolUse: id}
		}
	}
	if meta != nil {
		if r, ok := s.codexReader(ctx, meta.AdditionalFields); ok {
			return r
		}
	}
	if s.opt.Reader == ReaderConnection {
		if c := s.conn(ctx); c != nil {
			return wire.Reader{Connection: c.id}
		}
	}
	return wire.Reader{}
}

// codexReader returns the reader of a call from Codex. Codex's hook must have announced the call,
// because without hooks nobody reports a compaction. Hooks identify only the main thread, so any
// other is an unknown reader.
func (s *Server) codexReader(ctx context.Context, meta map[string]any) (wire.Reader, bool) {
	field := func(name string) string {
		v, _ := meta[name].(string)
		if len(v) > 200 {
			return ""
		}
		return v
	}
	call, thread := field(callKey), field(threadKey)
	if call == "" || thread == "" {
		return wire.Reader{}, false
	}
	if thread != field(sessionKey) {
		return wire.Reader{}, true
	}
	window := field(windowKey)
	s.mu.Lock()
	was, known := s.windows[thread]
	if len(s.windows) >= maxConns {
		clear(s.windows)
	}
	s.windows[thread] = window
	s.mu.Unlock()
	if !known {
		s.countThread(ctx, thread)
	}
	if known && was != window {
		ev := wire.SessionEvent{Event: "lost", Session: thread, Client: "mcp"}
		for _, p := range s.opened() {
			if _, err := p.backend.try(ctx, readWait, wire.MSession, ev, nil, nil); err != nil {
				s.mu.Lock()
				s.windows[thread] = was // so that the next call reports the compaction again
				s.mu.Unlock()
				return wire.Reader{}, true
			}
		}
	}
	return wire.Reader{ToolUse: call}, true
}

// mustForce reports whether path must be sent whole, because the connection's cache was cleared and
// path was not sent since.
func (c *conn) mustForce(path string) bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cleared && !c.fresh[path]
}

// markSent records that path was sent after the cache was cleared.
func (c *conn) markSent(path string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cleared {
		c.fresh[path] = true
	}
}

func (c *conn) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cleared, c.fresh = true, make(map[string]bool)
}

// hello starts the daemon before the first tool call needs it, and reports the client's session if
// the environment names one.
func (s *Server) hello(ctx context.Context) {
	_, err := s.backend.get(ctx)
	if err == nil && s.opt.Session != "" {
		ev := wire.SessionEvent{Event: "connect", Session: s.opt.Session, Client: "mcp", Cwd: s.opt.Root, PID: os.Getppid()}
		_, err = s.backend.try(ctx, noteWait, wire.MSession, ev, nil, nil)
	}
	if err != nil && ctx.Err() == nil {
		s.opt.Logger.Info("not registered with the store daemon", "err", err)
	}
}
