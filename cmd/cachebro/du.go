package main

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cachebro/fusefs/mounts"
	"cachebro/store"
	"cachebro/store/daemon"
	"cachebro/store/space"
	"cachebro/store/wire"
)

func duCommand() command {
	return command{
		name: "du", group: groupStore, args: "[PATH]", short: "what the history takes on disk, and for what",
		long: `With --all: what the histories of all projects of this user take, and what each
may take of CACHEBRO_CAP as the others are now. What worktrees of one repository
share is counted once, in equal parts.

Examples:
  cachebro du
  cachebro du src --json
  cachebro du --all`,
		run: func(ctx context.Context, e *env) error {
			fs := e.flags()
			all := fs.Bool("all", false, "all projects of this user")
			asJSON := fs.Bool("json", false, "print JSON")
			args, err := e.parse(fs, 0, 1)
			if err != nil {
				return err
			}
			if *all {
				if len(args) > 0 {
					return e.usagef("du: --all takes no path")
				}
				return e.duAll(*asJSON)
			}
			where := first(args, ".")
			t, err := e.locate(where)
			if err != nil {
				return err
			}
			return e.maintain(ctx, where, wire.StoreRequest{Do: "du", Path: t.rel}, *asJSON)
		},
	}
}

// duLine is one project in du --all.
type duLine struct {
	Root    string    `json:"root,omitempty"` // as far as it is known
	State   string    `json:"state"`
	Bytes   int64     `json:"bytes"`
	Shared  int64     `json:"shared"`  // of its pack files with sibling worktrees, in full
	Allowed int64     `json:"allowed"` // of the cap, as the others are now
	Wrote   time.Time `json:"wrote"`
}

// duAll lists what the stores of all projects take. It asks no daemon and
// starts none.
func (e *env) duAll(asJSON bool) error {
	limits, err := e.storeLimits()
	if err != nil {
		return err
	}
	base, err := e.paths().StateBase()
	if err != nil {
		return err
	}
	limit := cmp.Or(limits.Cap, store.DefaultCap)
	lines := []duLine{}
	sum, shared := int64(0), int64(0)
	for _, p := range daemon.Peers(base, limit, e.now()) {
		all, elsewhere := space.Shared(filepath.Join(p.State, "store"))
		lines = append(lines, duLine{Root: e.rootOfState(p.State), State: p.State, Bytes: p.Used, Shared: all, Allowed: p.Allowed, Wrote: p.Wrote})
		sum, shared = sum+p.Used, shared+all-elsewhere
	}
	slices.SortStableFunc(lines, func(a, b duLine) int { return cmp.Compare(b.Bytes, a.Bytes) })
	if asJSON {
		return e.printJSON(map[string]any{"projects": lines, "bytes": sum, "shared": shared, "cap": limit})
	}
	for _, l := range lines {
		name := quote(cmp.Or(l.Root, stateName(l.State)))
		if l.Bytes > l.Allowed {
			name += fmt.Sprintf(" (above its share of %s)", bytesText(l.Allowed))
		}
		fmt.Fprintf(e.stdout, "%10s  %s  %s\n", bytesText(l.Bytes), l.Wrote.Format("2006-01-02"), name)
	}
	fmt.Fprintf(e.stdout, "%10s  of %s (CACHEBRO_CAP)\n", bytesText(sum), bytesText(limit))
	if shared > 0 {
		fmt.Fprintf(e.stdout, "%10s  of that shared by worktrees of one repository, counted once, in equal parts\n", bytesText(shared))
	}
	return nil
}

// rootOfState is the root whose history a state directory holds, "" when it is
// not known or when the history was put aside.
func (e *env) rootOfState(state string) string {
	root := cmp.Or(mounts.ReadIdentity(state).Root, rootOf(state))
	if own, err := e.paths().State(root); err != nil || own != state {
		return ""
	}
	return root
}

// siblings are the stores of the other worktrees of root's repository.
func (e *env) siblings(root string) []store.Sibling {
	base, err := e.paths().StateBase()
	if err != nil {
		return nil
	}
	state, err := e.paths().State(root)
	if err != nil {
		return nil
	}
	var out []store.Sibling
	for _, s := range mounts.Siblings(base, state) {
		out = append(out, store.Sibling{Dir: filepath.Join(s, "store"), Root: e.rootOfState(s)})
	}
	return out
}

// stateName is the readable part of a state directory's name.
func stateName(state string) string {
	name := filepath.Base(state)
	return name[:strings.LastIndexByte(name, '-')]
}

// tidyWithin is how long the collection of another project may take.
const tidyWithin = 10 * time.Minute

// tidy has another project's daemon, started if need be, keep to its share.
func (e *env) tidy(ctx context.Context, state string) error {
	root := e.rootOfState(state)
	if root == "" {
		return fmt.Errorf("it is not known whose history this is")
	}
	ctx, cancel := context.WithTimeout(ctx, tidyWithin)
	defer cancel()
	c := exec.CommandContext(ctx, e.exe, "prune", "--limits", "--own", "--dir", root)
	c.Env, c.Dir = e.vars, "/"
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("prune %s: %w: %s", root, err, oneLine(string(out)))
	}
	return nil
}
