package apply

import (
	"context"
	"fmt"
	"slices"
	"time"

	"cachebro/store/wire"
	"cachebro/store/wire/visible"
)

// othersWithin is the timeout for another project's daemon to report what a prompt changed there.
const othersWithin = 5 * time.Second

// ChangedElsewhere reports what the prompt or session of an undo also changed in other projects. It
// returns one line for each project, with the command that undoes these changes. It omits own, the
// project of the undo, and the projects in besides. connect connects to the daemon of a project. It
// returns a function for requests and one that closes the connection.
func ChangedElsewhere(ctx context.Context, places wire.Paths, own, session, prompt string, connect func(ctx context.Context, root string) (Ask, func() error, error), besides ...string) []string {
	if session == "" {
		return nil
	}
	what, id := "session", session
	if prompt != "" {
		what, id = "prompt", prompt
	}
	plan := func(root string) (p wire.Plan, err error) {
		ctx, cancel := context.WithTimeout(ctx, othersWithin)
		defer cancel()
		ask, end, err := connect(ctx, root)
		if err != nil {
			return p, err
		}
		defer func() { _ = end() }()
		_, err = ask(ctx, wire.MPlan, wire.PlanRequest{Kind: "undo", Session: session, Prompt: prompt, DryRun: true}, nil, &p)
		return p, err
	}
	var lines []string
	seen := []string{own}
	for _, root := range places.SessionProjects(session) {
		if slices.Contains(seen, root) || slices.Contains(besides, root) {
			continue
		}
		seen = append(seen, root)
		p, err := plan(root)
		if n := Files(p) + len(p.Conflicts) + len(p.Lost); err == nil && n > 0 {
			files := "1 file"
			if n > 1 {
				files = fmt.Sprintf("%d files", n)
			}
			lines = append(lines, fmt.Sprintf("note: the %s also changed %s in %s: cachebro undo --dir %s --%s %s", what, files, visible.Name(root), visible.Arg(root), what, visible.Arg(id)))
		}
	}
	return lines
}
