package knowledge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"cachebro/cmd/cachebro/daemon/attribution"
	"cachebro/cmd/cachebro/daemon/bundle"
	"cachebro/cmd/cachebro/daemon/ingest"
	"cachebro/store"
	"cachebro/store/leaf/ignore"
	"cachebro/store/memo/results"
	"cachebro/store/onwire"
	"cachebro/store/readers"
	"cachebro/store/wire"
)

// bundles holds the project's graph, from which contexts are made.
type bundles struct {
	graph *bundle.Graph
	looks chan struct{} // capacity 1: held while all files are scanned
	build string        // of this program: another build may word a text differently
}

// newNodeWait bounds the wait for a node with an unknown name, which may be new.
const newNodeWait = time.Second

// openBundles makes the graph, which reads the log at its first use.
func (kn *Knowledge) openBundles() {
	kn.bundles.looks, kn.bundles.build = make(chan struct{}, 1), kn.buildStamp()
	kn.bundles.graph = kn.newGraph(kn.Store.KV("graph"))
}

// buildStamp returns a text that differs for each build, because builds of the same version may
// word a text differently.
func (kn *Knowledge) buildStamp() string {
	name, err := os.Executable()
	if err == nil {
		var st os.FileInfo
		st, err = os.Stat(name)
		if err == nil {
			return fmt.Sprintf("%s %d %d", kn.Version, st.Size(), st.ModTime().UnixNano())
		}
	}
	return fmt.Sprintf("%s %d", kn.Version, time.Now().UnixNano()) // the executable was replaced, so nothing cached may outlive this process
}

// newGraph makes an empty graph. If rows is nil, the graph does not use stored rows.
func (kn *Knowledge) newGraph(rows bundle.KV) *bundle.Graph {
	return bundle.New(bundle.Options{
		Source: kn.Store, Rows: rows, Build: kn.bundles.build, Pairs: kn.Sets.Pairs(), By: attribution.ByWhom,
		Secret: func(p store.Path) bool { return ignore.Secret(string(p)) },
		Warn:   func(msg string, err error) { kn.Log.Warn(msg, "err", err) },
	})
}

func (kn *Knowledge) contextRequest(ctx context.Context, r *wire.Request, q wire.ContextRequest) (any, []byte, error) {
	if q.Depth < 0 || q.MaxNodes < 0 || q.MaxChunks < 0 {
		return nil, nil, wire.Errorf(wire.ErrBadRequest, "leave them out for the defaults", "depth, max_nodes and max_chunks cannot be negative")
	}
	sure, err := kn.filesKnown(ctx)
	if err != nil {
		return nil, nil, err
	}
	text, hit, err := kn.bundle(ctx, q)
	var none *bundle.ErrNoNode
	if errors.As(err, &none) && !sure { // the node may be new
		kn.Ingest.WaitHead(ctx, newNodeWait)
		text, hit, err = kn.bundle(ctx, q)
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
	reader, known := kn.Reads.ReaderOf(q.Reader, r.Hello.Client)
	etag := bundle.Etag(text)
	tool := cmp.Or(q.Tool, "get_context")
	a, body, err := kn.Reads.Answer(ctx, r, readers.Request{
		Reader: reader, Known: known, Path: shownAs(q), Hash: kn.Reads.Texts.Add(text), Content: func() ([]byte, error) { return text, nil },
		Force: q.Force || q.Anew || !sure, Small: q.Small, Pending: q.Pending, ToolUse: q.Reader.ToolUse, Tool: tool,
		Stub: func(base time.Time) string { return unchangedBundle(etag, base) },
	})
	if err != nil {
		return nil, nil, err
	}
	return wire.ContextAnswer{Etag: etag, Kept: hit, ReadAnswer: a}, body, nil
}

// shownAs returns the name under which a bundle is recorded as shown. It contains the whole request,
// and cannot be the path of a file.
func shownAs(q wire.ContextRequest) store.Path {
	return store.Path(fmt.Sprintf("bundle\x00%s\x00%d %d %d %v", q.Ref, q.Depth, q.MaxNodes, q.MaxChunks, q.Graph))
}

// unchangedBundle returns the answer for a reader that still has the present bundle.
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

// filesKnown brings the log up to date with the files. sure means that no change can have been
// missed, so that the answer may say "unchanged".
func (kn *Knowledge) filesKnown(ctx context.Context) (sure bool, err error) {
	mounted, attach, _ := kn.Survey.MountState()
	if mounted && !attach.Outside && !kn.Survey.Scanning() {
		return kn.Ingest.WaitHead(ctx, ingest.FreshWait) && !kn.Ingest.WritingBelow(""), nil
	}
	select {
	case kn.bundles.looks <- struct{}{}:
		defer func() { <-kn.bundles.looks }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	missing, err := kn.Survey.LookAtAll(ctx)
	return missing == "" && !(mounted && attach.Outside), err
}

// bundle returns a bundle. It uses the cached one if its plan is still the same.
func (kn *Knowledge) bundle(ctx context.Context, q wire.ContextRequest) (text []byte, hit bool, err error) {
	g := kn.bundles.graph
	if q.Anew {
		g = kn.newGraph(nil)
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
	return kn.Answers.Here.Do(ctx, results.Call{
		Tool: "context", Args: []any{tool, bq, kn.bundles.build},
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

// Forget removes a path from the graph. The graph does not read the path again until release is
// called.
func (kn *Knowledge) Forget(ctx context.Context, p store.Path) (release func(), err error) {
	return kn.bundles.graph.Forget(ctx, string(p))
}
