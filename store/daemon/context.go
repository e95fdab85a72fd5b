package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"cachebro/fusefs/ignore"
	"cachebro/store"
	"cachebro/store/daemon/attribution"
	"cachebro/store/daemon/onwire"
	"cachebro/store/daemon/waits"
	"cachebro/store/knowledge/bundle"
	"cachebro/store/memo/results"
	"cachebro/store/readers"
	"cachebro/store/wire"
)

// bundles is the project's graph with the bundles that were made of it.
type bundles struct {
	graph *bundle.Graph
	looks chan struct{} // capacity 1: held by who looks at all files
	build string        // of this program: what another one made may read differently
}

// newNodeWait is how long a name that nobody knows is waited for.
const newNodeWait = time.Second

// openBundles makes the graph, which knows nothing yet.
func (d *Daemon) openBundles() {
	d.bundles.looks, d.bundles.build = make(chan struct{}, 1), d.buildStamp()
	d.bundles.graph = d.newGraph(d.store.KV("graph"))
}

// buildStamp tells this program from others of the same version: how a text is
// made can change with every build.
func (d *Daemon) buildStamp() string {
	name, err := os.Executable()
	if err == nil {
		var st os.FileInfo
		if st, err = os.Stat(name); err == nil {
			return fmt.Sprintf("%s %d %d", d.o.Version, st.Size(), st.ModTime().UnixNano())
		}
	}
	return fmt.Sprintf("%s %d", d.o.Version, d.began.UnixNano()) // replaced under us: nothing outlives this process
}

// newGraph knows nothing yet; rows nil: it will not use what was kept.
func (d *Daemon) newGraph(rows bundle.KV) *bundle.Graph {
	return bundle.New(bundle.Options{
		Source: d.store, Rows: rows, Build: d.bundles.build, Pairs: d.sets.Pairs(), By: attribution.ByWhom,
		Secret: func(p store.Path) bool { return ignore.Secret(string(p)) },
		Warn:   func(msg string, err error) { d.log.Warn(msg, "err", err) },
	})
}

// contextRequest answers get_context and get_graph.
func (d *Daemon) contextRequest(ctx context.Context, r *wire.Request) (any, []byte, error) {
	var q wire.ContextRequest
	if err := r.Decode(&q); err != nil {
		return nil, nil, err
	}
	if q.Depth < 0 || q.MaxNodes < 0 || q.MaxChunks < 0 {
		return nil, nil, wire.Errorf(wire.ErrBadRequest, "leave them out for the defaults", "depth, max_nodes and max_chunks cannot be negative")
	}
	sure, err := d.filesKnown(ctx)
	if err != nil {
		return nil, nil, err
	}
	text, hit, err := d.bundle(ctx, q)
	var none *bundle.ErrNoNode
	if errors.As(err, &none) && !sure { // it may be new
		d.ingest.WaitHead(ctx, newNodeWait)
		text, hit, err = d.bundle(ctx, q)
	}
	if errors.As(err, &none) {
		hint := "a node is a file, a directory, or a group of cachebro.yml"
		if len(none.Near) > 0 {
			hint = "did you mean " + strings.Join(none.Near, ", ") + "?"
		}
		return nil, nil, wire.Errorf(wire.ErrNotFound, hint, "%v", none)
	}
	if err != nil {
		return nil, nil, err
	}
	reader, known := d.reads.ReaderOf(q.Reader, r.Hello.Client)
	etag := bundle.Etag(text)
	tool := q.Tool
	if tool == "" {
		tool = "get_context"
	}
	a, err := d.shown.Decide(ctx, readers.Request{
		Reader: reader, Known: known, Path: shownAs(q), Hash: d.texts.Add(text), Content: func() ([]byte, error) { return text, nil },
		Force: q.Force || q.Anew || !sure, Pending: q.Pending, ToolUse: q.Reader.ToolUse, Tool: tool,
		Stub: func(base time.Time) string { return unchangedBundle(etag, base) },
	})
	if err != nil {
		return nil, nil, err
	}
	if !q.Pending && known {
		r.Written = func(err error) {
			if err != nil { // it was counted as shown and never arrived
				d.shown.Event(readers.Event{Reader: reader, Name: "lost"})
			}
		}
	}
	return wire.ContextAnswer{Etag: etag, Kept: hit, ReadAnswer: wire.ReadAnswer{
		Kind: a.Kind, Label: a.Label, Hash: onwire.Hash(a.Hash), Start: a.Start, NumLines: a.NumLines, TotalLines: a.TotalLines,
		Tokens: a.Tokens, Full: a.FullTokens, Saved: a.Saved, BaseTime: a.BaseTime, Mounted: d.survey.Mounted(),
	}}, []byte(a.Text), nil
}

// shownAs is the name under which a bundle is remembered as shown: its whole
// question, and no path of a file.
func shownAs(q wire.ContextRequest) store.Path {
	return store.Path(fmt.Sprintf("bundle\x00%s\x00%d %d %d %v", q.Ref, q.Depth, q.MaxNodes, q.MaxChunks, q.Graph))
}

// unchangedBundle is the answer to a reader that holds the bundle as it is.
func unchangedBundle(etag string, since time.Time) string {
	b, err := json.MarshalIndent(struct {
		Cached bool   `json:"cached"`
		Etag   string `json:"etag"`
		Since  string `json:"unchanged_since"`
		Hint   string `json:"hint"`
	}{true, etag, since.UTC().Format(time.RFC3339), "Context unchanged since last request. Use previous bundle."}, "", "  ")
	if err != nil {
		return ""
	}
	return string(b)
}

// filesKnown brings the log up to the files as they are. sure: nothing can have
// been missed, so that an earlier bundle may be said to be unchanged.
func (d *Daemon) filesKnown(ctx context.Context) (sure bool, err error) {
	mounted, attach, _ := d.survey.MountState()
	if mounted && !attach.Outside && !d.survey.Scanning() {
		return d.ingest.WaitHead(ctx, waits.Fresh) && !d.ingest.WritingBelow(""), nil
	}
	select {
	case d.bundles.looks <- struct{}{}:
		defer func() { <-d.bundles.looks }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	missing, err := d.survey.LookAtAll(ctx)
	return missing == "" && !(mounted && attach.Outside), err
}

// bundle answers from what was kept, as long as its plan is what it was.
func (d *Daemon) bundle(ctx context.Context, q wire.ContextRequest) (text []byte, hit bool, err error) {
	g := d.bundles.graph
	if q.Anew {
		g = d.newGraph(nil)
	}
	if err := g.Follow(ctx); err != nil {
		return nil, false, onwire.Error(err)
	}
	bq := bundle.Query{Ref: q.Ref, Depth: q.Depth, MaxNodes: q.MaxNodes, MaxChunks: q.MaxChunks}
	make, tool := g.Plan, "bundle/1"
	if q.Graph {
		make, tool = g.PlanGraph, "graph/1"
	}
	plan, err := make(ctx, bq)
	if err != nil {
		return nil, false, err
	}
	render := func(ctx context.Context) ([]byte, error) {
		if q.Graph {
			return bundle.GraphText(plan), nil
		}
		return g.Text(ctx, plan)
	}
	if q.Anew {
		text, err = render(ctx)
		return text, false, err
	}
	now := plan.Hash()
	return d.answers.Own(ctx, results.Call{
		Tool: "context", Args: []any{tool, bq, d.bundles.build},
		Holds: func(_ context.Context, uses []results.Used) bool {
			return now != "" && len(uses) > 0 && uses[0].Path == plan.Ref && uses[0].Version == now
		},
		Compute: func(ctx context.Context) (results.Answer, error) {
			text, err := render(ctx)
			if err != nil {
				return results.Answer{}, onwire.Error(err)
			}
			return results.Answer{Value: text, Uses: []results.Used{{Path: plan.Ref, Version: now}}}, nil
		},
	})
}
