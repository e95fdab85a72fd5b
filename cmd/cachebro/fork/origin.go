package fork

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/fusefs/mounts"
	"cachebro/store/wire"
)

// Origin says what a fork was made from.
type Origin struct {
	Root string    `json:"root"` // the project's root
	Fork string    `json:"fork"` // where the fork was made
	Seq  uint64    `json:"seq"`  // the newest version of the project that is in the fork
	At   time.Time `json:"at"`   // the requested moment
	Made time.Time `json:"made"`
	Git  bool      `json:"git,omitempty"` // a worktree of the project's repository
	// Absent holds the paths that the project had and the fork did not get. They are no deletions.
	Absent [][]byte `json:"absent,omitempty"`
}

const originFile = "origin.json"

// fork is an existing fork.
type fork struct {
	cli.Target        // where it is
	state      string // its state directory
	from       Origin
}

// OriginOf returns what the project at root was forked from. ok is false if it is not a fork.
func OriginOf(e *cli.Env, root string) (o Origin, ok bool) {
	state, err := e.Paths().State(root)
	if err != nil {
		return o, false
	}
	o, err = readOrigin(state)
	return o, err == nil
}

func readOrigin(state string) (o Origin, err error) {
	err = wire.ReadJSON(filepath.Join(state, originFile), &o)
	if err == nil && !filepath.IsAbs(o.Root) {
		err = fmt.Errorf("%s does not name a project", filepath.Join(state, originFile))
	}
	return o, err
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
	f.from, err = readOrigin(f.state)
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
	base, err := e.Paths().StateBase()
	if err != nil {
		return nil, err
	}
	states, err := filepath.Glob(filepath.Join(base, "*", originFile))
	if err != nil {
		return nil, err
	}
	overlays, err := mounts.Overlays()
	if err != nil {
		return nil, err
	}
	all := []listed{}
	for _, s := range states {
		state := filepath.Dir(s)
		from, err := readOrigin(state)
		if err != nil || from.Root != project {
			continue
		}
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
