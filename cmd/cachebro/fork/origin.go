package fork

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/cmd/cachebro/mounting"
	"cachebro/fusefs/mounts"
)

// fork is an existing fork.
type fork struct {
	cli.Target        // where it is
	state      string // its state directory
	from       mounting.Origin
}

// OriginOf returns what the project at root was forked from. ok is false if it is not a fork.
func OriginOf(e *cli.Env, root string) (o mounting.Origin, ok bool) {
	state, err := e.Paths().State(root)
	if err != nil {
		return o, false
	}
	o, err = mounting.ReadOrigin(state)
	return o, err == nil
}

// find returns the fork that contains a path.
func find(e *cli.Env, given string) (f fork, err error) {
	f.Target, err = e.Locate(given)
	if err != nil {
		return f, err
	}
	f.state, err = e.Paths().State(f.Root)
	if err != nil {
		return f, err
	}
	f.from, err = mounting.ReadOrigin(f.state)
	if errors.Is(err, fs.ErrNotExist) {
		err = cli.Hintf("cachebro fork lists the forks of a project", "%s is not a fork", cli.Quote(f.Root))
	}
	return f, err
}

// listed is one line in the list of forks.
type listed struct {
	Root    string    `json:"root"`
	Seq     uint64    `json:"seq"`
	At      time.Time `json:"at"`
	Made    time.Time `json:"made"`
	Mounted bool      `json:"mounted"`
	Gone    bool      `json:"gone,omitempty"` // the directory no longer exists
}

// forksOf returns the forks of a project, the oldest first.
func forksOf(e *cli.Env, project string) ([]listed, error) {
	forks, err := mounting.Forks(e, project)
	if err != nil {
		return nil, err
	}
	overlays, err := mounts.Overlays()
	if err != nil {
		return nil, err
	}
	all := []listed{}
	for state, from := range forks {
		root := cmp.Or(mounts.ReadIdentity(state).Root, from.Fork) // the fork may have been relocated since
		all = append(all, listed{Root: root, Seq: from.Seq, At: from.At, Made: from.Made, Mounted: cli.MountedHere(overlays, root), Gone: !cli.IsDir(root)})
	}
	slices.SortFunc(all, func(a, b listed) int { return a.Made.Compare(b.Made) })
	return all, nil
}

func list(e *cli.Env, o options) error {
	t, err := e.Locate(".")
	if err != nil {
		return err
	}
	all, err := forksOf(e, t.Root)
	if err != nil {
		return err
	}
	if o.json {
		return e.PrintJSON(map[string]any{"root": t.Root, "forks": all})
	}
	if len(all) == 0 {
		fmt.Fprintf(e.Stdout, "%s has no forks: cachebro fork ../NAME makes one\n", cli.Quote(t.Root))
	}
	for _, f := range all {
		note := "not mounted"
		switch {
		case f.Mounted:
			note = "mounted"
		case f.Gone:
			note = "gone: cachebro fork drop " + cli.Arg(f.Root) + " forgets it"
		}
		fmt.Fprintf(e.Stdout, "%s  of version %d, made %s, %s\n", cli.Quote(f.Root), f.Seq, cli.Stamp(f.Made, e.Now()), note)
	}
	return nil
}
