package mcp

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"cachebro/store/leaf/cache"
	"cachebro/store/leaf/text"
	"cachebro/store/wire"
)

// Server serves one project to MCP clients: one connection on stdio, or many on HTTP. Calls about
// other projects open more Servers, which share a hub.
type Server struct {
	*hub
	opt     Options
	backend *backend
	locks   keyed
	pages   *cache.Cache[pageKey, page]
}

// hub is shared by the servers of all projects.
type hub struct {
	rpc   *server.MCPServer
	tools []*tool
	id    string // random; prefix of connection readers
	began time.Time
	start *Server // the server of the project that the process was started in

	conns *cache.Cache[string, *conn] // by session id

	mu       sync.Mutex
	projects map[string]*Server // by root
	windows  map[string]string  // by Codex thread: the context window that last asked
	unknown  map[unknownKey]bool
	schema   []byte      // the tools' schemas as last sent
	schemaOf wire.Reader // the reader last charged for schema
	listed   []string    // paths whose history is listed as a resource, oldest first
	watchers map[server.ClientSession]*watcher
	watching bool
	work     sync.WaitGroup // background work that Serve waits for
}

// Serve answers requests until In ends or ctx is done. It returns an error only for invalid options
// or a failed listener.
func Serve(ctx context.Context, opt Options) error {
	s, err := newServer(opt)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		all := s.opened()
		for _, o := range all {
			o.backend.end()
		}
		s.work.Wait()
		for _, o := range all {
			o.backend.close()
		}
	}()
	if s.opt.Listener != nil {
		return s.serveHTTP(ctx)
	}
	return s.serveStdio(ctx)
}

func newServer(opt Options) (*Server, error) {
	if err := opt.check(); err != nil {
		return nil, err
	}
	h := &hub{
		id: randomID(), began: time.Now(), projects: make(map[string]*Server),
		conns: cache.New[string, *conn](2*maxConns, nil), windows: make(map[string]string), unknown: make(map[unknownKey]bool), watchers: make(map[server.ClientSession]*watcher),
	}
	s := h.project(context.Background(), opt)
	h.start = s
	hooks := &server.Hooks{}
	hooks.AddAfterListTools(s.countSchema)
	hooks.AddOnError(func(ctx context.Context, _ any, _ mcp.MCPMethod, _ any, _ error) { cancelled(ctx) })
	hooks.AddAfterSubscribe(func(ctx context.Context, _ any, _ *mcp.SubscribeRequest, _ *mcp.EmptyResult) { s.watch(ctx) })
	hooks.AddBeforeSubscriptionsListen(func(ctx context.Context, _ any, _ *mcp.SubscriptionsListenRequest) { s.watch(ctx) })
	s.rpc = server.NewMCPServer("cachebro", opt.Version,
		server.WithTitle("cachebro"),
		server.WithInstructions(instructions(s.opt.Profile)),
		server.WithToolCapabilities(true),
		server.WithResourceCapabilities(true, true),
		server.WithCompletions(),
		server.WithResourceCompletionProvider(pathCompletions{s}),
		server.WithRecovery(),
		server.WithResourceRecovery(),
		server.WithHooks(hooks),
	)
	for _, t := range toolTable {
		if t.inProfile(s.opt.Profile) {
			s.tools = append(s.tools, t)
			s.rpc.AddTool(t.describe(s.opt.Profile), s.handler(t))
		}
	}
	s.addResources()
	return s, nil
}

// offers reports whether this profile has a tool. Hints must not mention other tools.
func (s *Server) offers(name string) bool {
	return slices.ContainsFunc(s.tools, func(t *tool) bool { return t.name == name })
}

// countSchema records the tokens of tools/list, which every context pays for. It runs in parallel
// with the answer.
func (s *Server) countSchema(ctx context.Context, _ any, _ *mcp.ListToolsRequest, res *mcp.ListToolsResult) {
	if b, err := text.JSONLine(res); err == nil {
		r := s.reader(ctx, nil)
		if r == (wire.Reader{}) {
			r.Session = s.opt.Session // may be wrong, but good enough for counting
		}
		s.mu.Lock()
		known := len(s.windows) > 0 && r.Session == ""
		if !known {
			s.schema, s.schemaOf = b, r
		}
		s.mu.Unlock()
		if known {
			return // each thread is charged at its first call
		}
		s.spendLater(ctx, wire.Spend{Reader: r, Tool: "schema", Kind: "overhead"}, b)
	}
}

// countThread records the tokens of tools/list for a session that was unknown when the tools were
// listed. It replaces countSchema's entry without a session.
func (s *Server) countThread(ctx context.Context, session string) {
	s.mu.Lock()
	schema, of := s.schema, s.schemaOf
	s.schemaOf = wire.Reader{Session: session}
	s.mu.Unlock()
	if schema == nil || of.Session == session {
		return
	}
	s.spendLater(ctx, wire.Spend{Reader: wire.Reader{Session: session}, Tool: "schema", Kind: "overhead"}, schema)
	if of.Session == "" {
		s.spendLater(ctx, wire.Spend{Reader: of, Tool: "schema", Kind: "overhead"}, nil)
	}
}

// spendLater passes sp and a text to the daemon, which counts the text's tokens. It does not delay
// the answer.
func (s *Server) spendLater(ctx context.Context, sp wire.Spend, sent []byte) {
	ctx = context.WithoutCancel(ctx)
	s.work.Go(func() {
		if _, err := s.backend.try(ctx, noteWait, wire.MSpend, sp, sent, nil); err != nil {
			s.opt.Logger.Debug("tokens not counted", "tool", sp.Tool, "err", err)
		}
	})
}

func randomID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
