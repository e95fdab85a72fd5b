package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"cachebro/store/leaf/cache"
	"cachebro/store/wire"
)

// A server is started in one project, but its client may work in several: the session can move to a
// worktree, have sub-agents in worktrees, or get another directory (--add-dir). So each call
// determines its project: by an absolute path in the call, or else by the directory in which the
// client's hook saw the call, or else it is the server's own project.
//
// A path alone does not open another project, because the client asks its user for permission by
// tool and not by path. The path must lie in one of these projects, or in a directory that the client
// returns as one of its roots.

// project returns the server of a project. The first call opens it.
func (h *hub) project(ctx context.Context, opt Options) *Server {
	opt.fill()
	h.mu.Lock()
	s := h.projects[opt.Root]
	opened := s == nil
	if opened {
		s = &Server{hub: h, opt: opt, backend: newBackend(&opt), pages: cache.New[pageKey, page](maxPages, nil)}
		h.projects[opt.Root] = s
	}
	h.mu.Unlock()
	if opened && h.start != nil {
		h.work.Go(func() { s.hello(context.WithoutCancel(ctx)) })
	}
	return s
}

// opened returns the servers of all projects that calls have been about.
func (h *hub) opened() []*Server {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Values(h.projects))
}

// rootsKey is the key of the request for a client's roots and of the answer.
const rootsKey = "roots"

// locate finds the call's project. If it needs the client's roots first, it returns a request for
// them. The client answers by repeating the call with its roots. If the mount does not answer,
// locate returns an error.
func (c *call) locate(ctx context.Context) (ask *mcp.CallToolResult, err error) {
	if stopped := c.s.opt.Stopped; stopped != nil {
		if err := stopped(); err != nil {
			return nil, err
		}
	}
	if c.s.opt.Open == nil {
		return nil, nil
	}
	names := pathsIn(c.req)
	// The directory of the call matters only if the call has no path, a relative one, or one in
	// another project.
	foreign := slices.ContainsFunc(names, func(p string) bool { return filepath.IsAbs(p) && c.openAt(p).Root != c.start.opt.Root })
	if len(names) == 0 || foreign || slices.ContainsFunc(names, func(p string) bool { return !filepath.IsAbs(p) }) {
		if err := c.findHere(ctx); err != nil {
			return nil, err
		}
	}
	if res := server.RootsResponse(c.req.Params.InputResponses, rootsKey); res != nil {
		for _, r := range res.Roots {
			c.roots = append(c.roots, resolved(expand(r.URI)))
		}
	} else if slices.ContainsFunc(names, func(p string) bool { return filepath.IsAbs(p) && c.serverOf(p) == nil }) && tellsRoots(ctx) {
		return server.NewInputRequestBuilder("").Roots(rootsKey).ToolResult(), nil
	}
	c.s = c.home
	if len(names) > 0 {
		c.s = c.serverFor(names[0])
	}
	return nil, nil
}

// tellsRoots reports whether the client can report its roots, the directories that it works in.
func tellsRoots(ctx context.Context) bool {
	info := server.RequestProtocolInfoFromContext(ctx)
	return info != nil && info.Modern && info.ClientCapabilities != nil && info.ClientCapabilities.Roots != nil
}

// pathsIn returns the paths that a call names.
func pathsIn(req mcp.CallToolRequest) (paths []string) {
	var args struct {
		Path   json.RawMessage `json:"path"`
		Paths  json.RawMessage `json:"paths"`
		Filter json.RawMessage `json:"path_filter"`
	}
	raw, ok := req.GetRawArguments().(json.RawMessage)
	if !ok {
		raw, _ = json.Marshal(req.Params.Arguments) // bind refuses what cannot be encoded
	}
	if json.Unmarshal(raw, &args) != nil {
		return nil
	}
	for _, given := range []json.RawMessage{args.Path, args.Paths, args.Filter} {
		var one string
		var list []string
		switch {
		case json.Unmarshal(given, &list) == nil:
		case json.Unmarshal(given, &one) == nil && strings.HasPrefix(strings.TrimSpace(one), "["):
			_ = json.Unmarshal([]byte(one), &list) // models also send a list as a string that contains JSON
		case one != "":
			list = []string{one}
		}
		for _, p := range list {
			paths = append(paths, expand(p))
		}
	}
	return paths
}

// findHere finds the project and work tree of the directory in which the client's hook saw the
// call.
func (c *call) findHere(ctx context.Context) error {
	if c.reader.ToolUse == "" {
		return nil
	}
	var at wire.ToolPlace
	if _, err := c.start.backend.try(ctx, readWait, wire.MToolPlace, wire.ToolCall{ToolUse: c.reader.ToolUse}, nil, &at); err != nil {
		if unreachable(err) && len(c.start.opened()) > 1 {
			return wire.Errorf(wire.AsError(err), "give absolute paths", "this session works in several projects, and the store of %s did not say which one this call is about: %v", quote(c.start.opt.Root), err)
		}
		return nil
	}
	o := c.openAt(at.Cwd)
	if o.Root != c.start.opt.Root {
		c.home = c.start.project(ctx, o)
	}
	c.base = workTree(c.home.dir(), at.Cwd)
	return nil
}

// openAt returns the options of the project at a path, or those of the project that the server was
// started in.
func (c *call) openAt(p string) Options {
	if filepath.IsAbs(p) {
		if o, ok := c.start.opt.Open(p); ok {
			return o
		}
	}
	return c.start.opt
}

// serverOf returns the server of a path's project, or nil if the client did not say that it works
// there.
func (c *call) serverOf(p string) *Server {
	if !filepath.IsAbs(p) {
		return c.home
	}
	switch o := c.openAt(p); {
	case o.Root == c.start.opt.Root:
		return c.start
	case c.worksAt(p, o):
		return c.start.project(context.Background(), o)
	}
	return nil
}

// worksAt reports whether the session works at a path of another project.
func (c *call) worksAt(p string, o Options) bool {
	for _, s := range []*Server{c.start, c.home} {
		if _, below := relativeTo(o.Root, s.opt.Root); below {
			return true
		}
	}
	p = resolved(p)
	return slices.ContainsFunc(c.roots, func(root string) bool { _, below := relativeTo(p, root); return below })
}

// serverFor is serverOf, but instead of nil it returns the server of the client's own project, which
// refuses the path.
func (c *call) serverFor(p string) *Server {
	if s := c.serverOf(p); s != nil {
		return s
	}
	return c.home
}

// forPath returns a copy of c whose project is that of p, one of the call's paths.
func (c *call) forPath(p string) *call {
	if c.s.opt.Open == nil {
		return c
	}
	return &call{s: c.serverFor(expand(p)), start: c.start, home: c.home, base: c.base, roots: c.roots, req: c.req, reader: c.reader, conn: c.conn, tool: c.tool}
}

// resolve is Server.resolve for a path of this call. In a linked work tree inside the project, a
// relative path means a file of that work tree.
func (c *call) resolve(p string) (string, error) {
	rel, err := c.s.resolve(p)
	if _, below := relativeTo(rel, c.base); err != nil || below || c.s != c.home || filepath.IsAbs(expand(p)) {
		return rel, err
	}
	return filepath.Join(c.base, rel), nil
}

// workTree returns the top of the linked work tree that contains dir, relative to the project, or
// "" if no work tree inside the project does.
func workTree(project, dir string) string {
	for {
		rel, ok := relativeTo(dir, project)
		if !ok || rel == "" {
			return ""
		}
		if b, err := os.ReadFile(filepath.Join(dir, ".git")); err == nil && bytes.Contains(b, []byte("/worktrees/")) {
			return rel
		}
		dir = filepath.Dir(dir)
	}
}

// resolved follows the symlinks in a path as far as it exists.
func resolved(p string) string {
	for dir, rest := filepath.Clean(p), ""; ; dir, rest = filepath.Dir(dir), filepath.Join(filepath.Base(dir), rest) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, rest)
		}
		if dir == filepath.Dir(dir) {
			return filepath.Clean(p)
		}
	}
}

// expand turns a file URL, or a path that begins with ~/, into a plain path.
func expand(p string) string {
	if u, err := url.Parse(p); err == nil && u.Scheme == "file" && slices.Contains([]string{"", "localhost"}, u.Host) && u.Path != "" {
		p = u.Path
	}
	if rest, ok := strings.CutPrefix(p, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			p = filepath.Join(home, rest)
		}
	}
	return p
}
