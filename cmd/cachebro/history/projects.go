package history

import (
	"context"
	"fmt"
	"io"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/store/leaf/text"
	"cachebro/store/undo/apply"
	"cachebro/store/wire"
)

// othersWithin is how long the daemon of another project may take to say what a prompt
// changed there.
const othersWithin = 5 * time.Second

// noteOthers says what the prompt or session that is taken back changed in other projects,
// and the command that takes that back.
func noteOthers(ctx context.Context, e *cli.Env, w io.Writer, t cli.Target, plan wire.Plan) {
	if plan.Session == "" {
		return
	}
	what, id := "session", plan.Session
	r := wire.PlanRequest{Kind: "undo", Session: plan.Session, Prompt: plan.Prompt, DryRun: true}
	if plan.Prompt != "" {
		what, id = "prompt", plan.Prompt
	}
	seen := map[string]bool{t.Root: true}
	for _, root := range e.Paths().SessionProjects(plan.Session) {
		if seen[root] {
			continue
		}
		seen[root] = true
		there, err := planThere(ctx, e, root, r)
		if n := apply.Files(there) + len(there.Conflicts) + len(there.Lost); err == nil && n > 0 {
			fmt.Fprintf(w, "note: the %s also changed %s in %s: cachebro undo --dir %s --%s %s\n", what, text.Count(n, "file"), cli.Quote(root), cli.Arg(root), what, cli.Arg(id))
		}
	}
}

// planThere is what an undo in another project would do.
func planThere(ctx context.Context, e *cli.Env, root string, r wire.PlanRequest) (plan wire.Plan, err error) {
	ctx, cancel := context.WithTimeout(ctx, othersWithin)
	defer cancel()
	c, err := e.Connect(ctx, root)
	if err != nil {
		if c != nil {
			c.Close()
		}
		return plan, err
	}
	defer c.Close()
	return wire.Call[wire.Plan](ctx, c, wire.MPlan, r)
}
