package mcp

import (
	"context"
	"os"

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

// renew makes a connection a new reader, which was shown nothing. A cancelled call may have recorded a
// text as shown that the client did not get or ignores.
func (s *Server) renew(ctx context.Context) {
	if sess := server.ClientSessionFromContext(ctx); sess != nil {
		s.conns.Drop(sess.SessionID())
	}
}

// unknownKey identifies what was sent to a reader without the daemon's knowledge. Calls with a tool
// use may come from any sub-agent, so they share their keys.
type unknownKey struct{ connection, root, what string }

func (c *call) unknownKey(what string) unknownKey {
	return unknownKey{c.reader.Connection, c.s.opt.Root, what}
}

// sentUnknown notes that the reader gets a text of a file or listing of which the daemon does not know.
// The reader may then believe another content than the daemon's record says, so its next read is full.
func (c *call) sentUnknown(what string) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.s.unknown[c.unknownKey(what)] = true
}

// wasUnknown reports whether sentUnknown was called since the last sentWhole.
func (c *call) wasUnknown(what string) bool {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.s.unknown[c.unknownKey(what)]
}

// sentWhole notes that the daemon has recorded a whole text for the reader.
func (c *call) sentWhole(what string) {
	if c.reader.Connection == "" {
		return // another sub-agent may have got the unknown text
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	delete(c.s.unknown, c.unknownKey(what))
}

// small returns how many bytes of a text that is one of several in a result certainly reach the
// model, or 0 if a hook reports what does.
func (c *call) small(texts int) int {
	if c.reader.Connection == "" {
		return 0
	}
	return max(1, c.s.opt.Small/texts)
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
