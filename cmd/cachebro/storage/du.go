package storage

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/daemon/tidy"
	"cachebro/cmd/cachebro/mounting"
	"cachebro/fusefs/mounts"
	"cachebro/store/content"
	"cachebro/store/leaf/limits"
	"cachebro/store/leaf/text"
	"cachebro/store/space"
	"cachebro/store/wire"

	"github.com/spf13/cobra"
)

// DuCommand returns the command cachebro store du.
func DuCommand(e *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "du [PATH]", Short: "show how much disk the history takes, and for what",
		Long: `With --all it lists how much the histories of all projects of this user take, and marks
those that take more than their share of CACHEBRO_CAP. Contents that worktrees of one
repository share are counted once, divided equally among them.`,
		Example: `  cachebro store du
  cachebro store du src --json
  cachebro store du --all`,
		Args: e.Args(0, 1),
	}

	fs := cmd.Flags()
	all := fs.Bool("all", false, "all projects of this user")
	asJSON := fs.Bool("json", false, "print JSON")
	return cli.Does(cmd, func(ctx context.Context, args []string) error {
		if *all {
			if len(args) > 0 {
				return e.Usagef("du: --all takes no path")
			}
			return duAll(e, *asJSON)
		}
		where := cli.First(args, ".")
		t, err := e.Locate(where)
		if err != nil {
			return err
		}
		return maintain(ctx, e, where, wire.StoreRequest{Do: "du", Path: t.Rel}, *asJSON)
	})
}

type duLine struct {
	Root    string    `json:"root,omitempty"` // empty if it is not known
	State   string    `json:"state"`
	Bytes   int64     `json:"bytes"`
	Shared  int64     `json:"shared"`  // full size of those of its pack files that sibling worktrees share
	Allowed int64     `json:"allowed"` // its share of the cap, given what the others use now
	Wrote   time.Time `json:"wrote"`
}

// duAll lists the space that the stores of all projects take. It contacts no daemon.
func duAll(e *cli.Env, asJSON bool) error {
	set, err := storeLimits(e)
	if err != nil {
		return err
	}
	base, err := e.Paths().StateBase()
	if err != nil {
		return err
	}
	limit := cmp.Or(set.Cap, limits.History)
	lines := []duLine{}
	sum, shared := int64(0), int64(0)
	for _, p := range tidy.Peers(base, limit, e.Now()) {
		all, elsewhere := space.Shared(filepath.Join(p.State, "store"))
		l := duLine{Root: rootOfState(e, p.State), State: p.State, Bytes: p.Used, Shared: all, Allowed: p.Allowed, Wrote: p.Wrote}
		lines = append(lines, l)
		if l.Root != wire.OutsideRoot { // the user's own history has a separate cap
			sum, shared = sum+p.Used, shared+all-elsewhere
		}
	}
	slices.SortStableFunc(lines, func(a, b duLine) int { return cmp.Compare(b.Bytes, a.Bytes) })
	if asJSON {
		return e.PrintJSON(map[string]any{"projects": lines, "bytes": sum, "shared": shared, "cap": limit})
	}
	for _, l := range lines {
		name := cli.Quote(cmp.Or(l.Root, stateName(l.State)))
		if l.Root == wire.OutsideRoot {
			name += " (outside of projects: " + tidy.OutsideLimits(limit) + ")"
		} else if l.Bytes > l.Allowed {
			name += fmt.Sprintf(" (above its share of %s)", text.Bytes(l.Allowed))
		}
		fmt.Fprintf(e.Stdout, "%10s  %s  %s\n", text.Bytes(l.Bytes), l.Wrote.Format("2006-01-02"), name)
	}
	fmt.Fprintf(e.Stdout, "%10s  of %s (CACHEBRO_CAP)\n", text.Bytes(sum), text.Bytes(limit))
	if shared > 0 {
		fmt.Fprintf(e.Stdout, "%10s  of that is shared by worktrees of one repository, and counted once\n", text.Bytes(shared))
	}
	return nil
}

// rootOfState returns the root of the project whose history is in a state directory. It returns ""
// if that is unknown, or if the history was moved away.
func rootOfState(e *cli.Env, state string) string {
	root := cmp.Or(mounting.RootOf(state), wire.OutsideRoot)
	if own, err := e.Paths().State(root); err != nil || own != state {
		return ""
	}
	return root
}

// siblings returns the stores of the other worktrees of root's repository.
func siblings(e *cli.Env, root string) []content.Sibling {
	base, err := e.Paths().StateBase()
	if err != nil {
		return nil
	}
	state, err := e.Paths().State(root)
	if err != nil {
		return nil
	}
	var out []content.Sibling
	for _, s := range mounts.Siblings(base, state) {
		out = append(out, content.Sibling{Dir: filepath.Join(s, "store"), Root: rootOfState(e, s)})
	}
	return out
}

// stateName returns the readable part of a state directory's name.
func stateName(state string) string {
	name := filepath.Base(state)
	return name[:strings.LastIndexByte(name, '-')]
}

const tidyWithin = 10 * time.Minute

// tidyOther makes another project's daemon prune its store to its share of the cap. It starts the
// daemon if needed.
func tidyOther(ctx context.Context, e *cli.Env, state string) error {
	root := rootOfState(e, state)
	if root == "" {
		return fmt.Errorf("the project of this history is unknown")
	}
	ctx, cancel := context.WithTimeout(ctx, tidyWithin)
	defer cancel()
	c := exec.CommandContext(ctx, e.Exe, "store", "prune", "--limits", "--own", "--dir", root)
	c.Env, c.Dir = e.Vars, "/"
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("prune %s: %w: %s", root, err, cli.OneLine(string(out)))
	}
	return nil
}
