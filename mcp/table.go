package mcp

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"cachebro/store/wire"
)

// tool is one row of the table. Descriptions and schemas cost tokens in every context, so they say
// only what the names do not.
type tool struct {
	name   string
	title  string
	desc   string
	output reflect.Type // of structuredContent; status and metrics only
	// lean replaces desc in every profile except all. These profiles list only the arguments tagged
	// lean, which an agent cannot guess, and mark none as required. The other arguments are
	// accepted, and the answers for which they are useful mention them.
	lean *string
	// The protocol's hints. All are always sent, because by default a client assumes that a tool
	// destroys data.
	reads, destroys, idempotent bool
	handler                     handler
}

// call is one call of a tool.
type call struct {
	s      *Server  // of the call's project
	start  *Server  // of the project that the process was started in
	home   *Server  // of the project of the client's working directory
	base   string   // the linked work tree, inside home, that contains that directory
	roots  []string // directories in which the client says it works
	req    mcp.CallToolRequest
	reader wire.Reader
	conn   *conn // nil if requests have no connection
	tool   *tool
	counts atomic.Bool // the tool reports its own progress
}

// toolTable lists every tool, in the order of the profiles. mcp-go lists them by name.
var toolTable = []*tool{
	searchTool, searchHistoryTool, undoTool, revertFileTool,
	readFileTool, readFilesTool, editFileTool, workingSetTool,
	grepTool, writeFileTool, lsTool, redoTool, restoreTool, cacheStatusTool, summarizeTool, deltaMetricsTool, cacheClearTool,
	getContextTool, getGraphTool, updateNodeTool, gitLostTool,
	noteTool, syncCheckTool, markSyncedTool,
}

func (t *tool) inProfile(profile string) bool {
	var tools []*tool
	switch profile {
	case ProfileAll:
		return true
	case ProfileDefault:
		tools = []*tool{readFileTool, searchTool, undoTool}
	case ProfileRead:
		tools = []*tool{readFileTool}
	case ProfileSafety:
		tools = []*tool{searchTool, searchHistoryTool, undoTool, revertFileTool}
	}
	return slices.Contains(tools, t)
}

func (t *tool) describe(profile string) mcp.Tool {
	desc, lean := t.desc, t.lean != nil && profile != ProfileAll
	if lean {
		desc = *t.lean
	}
	m := mcp.NewToolWithRawSchema(t.name, desc, schemaOf(t.handler.args, lean))
	m.Title = t.title
	if t.output != nil {
		m.RawOutputSchema = schemaOf(t.output, false)
	}
	m.Annotations = mcp.ToolAnnotation{
		ReadOnlyHint: mcp.ToBoolPtr(t.reads), DestructiveHint: mcp.ToBoolPtr(t.destroys), IdempotentHint: mcp.ToBoolPtr(t.idempotent),
	}
	return m
}

// handler turns errors into tool errors, which the model sees and can correct, except for a
// cancelled call.
func (s *Server) handler(t *tool) server.ToolHandlerFunc {
	return func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		defer context.AfterFunc(ctx, func() { s.renew(ctx) })()
		c := &call{s: s, start: s, home: s, req: req, reader: s.reader(ctx, req.Params.Meta), conn: s.conn(ctx), tool: t}
		if ctx.Err() != nil {
			return nil, ctx.Err() // the reader is already the new one
		}
		stop := c.beat(ctx)
		res, err := c.locate(ctx)
		if err == nil && res == nil {
			res, err = t.handler.run(ctx, c)
		}
		stop()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err == nil {
			return res, nil
		}
		var e *wire.Error
		if !errors.As(err, &e) || unreachable(err) {
			s.opt.Logger.Warn("tool failed", "tool", t.name, "err", err)
		}
		if unreachable(err) && wire.Hint(err) == "" && e != nil {
			err = &wire.Error{Code: e.Code, Message: "cachebro's store: " + e.Message, Hint: "cachebro status gives details; the project's files are not affected"}
		}
		return toolError(c.s.deadMount(err)), nil
	}
}

// deadMount explains an error caused by a mount that no process serves.
func (s *Server) deadMount(err error) error {
	var st syscall.Statfs_t
	if !strings.Contains(err.Error(), syscall.ENOTCONN.Error()) || !errors.Is(syscall.Statfs(s.dir(), &st), syscall.ENOTCONN) {
		return err
	}
	return &wire.Error{Code: wire.ErrInternal.Code, Message: "the mount on " + quote(s.dir()) + " is dead: the processes that served it were killed",
		Hint: "cachebro mount " + quote(s.dir()) + " mounts it again; no saved version is lost"}
}

// beatEvery is the interval of progress notifications.
const beatEvery = time.Second

// beat tells a client that asked for progress how long a call has taken, until stop is called. It
// sends nothing if the tool reports its own progress.
func (c *call) beat(ctx context.Context) (stop func()) {
	if !c.wantsProgress() {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(beatEvery)
		defer tick.Stop()
		for n := 1; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if !c.counts.Load() {
				took := time.Duration(n) * beatEvery
				c.notifyProgress(ctx, map[string]any{"progress": took.Seconds(), "message": c.tool.name + ": " + took.String()})
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

func (c *call) wantsProgress() bool {
	return c.req.Params.Meta != nil && c.req.Params.Meta.ProgressToken != nil
}

// progress tells a client that asked for it how far a call is.
func (c *call) progress(ctx context.Context, done, total int, what string) {
	if c.wantsProgress() {
		c.counts.Store(true)
		c.notifyProgress(ctx, map[string]any{"progress": done, "total": total, "message": what})
	}
}

func (c *call) notifyProgress(ctx context.Context, params map[string]any) {
	params["progressToken"] = c.req.Params.Meta.ProgressToken
	if err := c.s.rpc.SendNotificationToClient(ctx, string(mcp.MethodNotificationProgress), params); err != nil {
		c.s.opt.Logger.Debug("progress not sent", "err", err)
	}
}

func textResult(t string) *mcp.CallToolResult { return mcp.NewToolResultText(t) }
