package mounting

import (
	"fmt"
	"path/filepath"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/store/wire"
)

// Origin says what a fork was made from. It is stored in the state directory of the fork.
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

// ReadOrigin reads the origin of the fork with the given state directory.
func ReadOrigin(state string) (o Origin, err error) {
	err = wire.ReadJSON(filepath.Join(state, originFile), &o)
	if err == nil && !filepath.IsAbs(o.Root) {
		err = fmt.Errorf("%s does not name a project", filepath.Join(state, originFile))
	}
	return o, err
}

// Write writes the origin of the fork with the given state directory.
func (o Origin) Write(state string) error {
	return wire.WriteJSON(filepath.Join(state, originFile), o)
}

// Forks returns the origins of the forks of a project, by their state directories.
func Forks(e *cli.Env, project string) (map[string]Origin, error) {
	base, err := e.Paths().StateBase()
	if err != nil {
		return nil, err
	}
	states, err := filepath.Glob(filepath.Join(base, "*", originFile))
	if err != nil {
		return nil, err
	}
	all := map[string]Origin{}
	for _, s := range states {
		if o, err := ReadOrigin(filepath.Dir(s)); err == nil && o.Root == project {
			all[filepath.Dir(s)] = o
		}
	}
	return all, nil
}

// moveForks makes the forks of a project those of the project at another root.
func moveForks(e *cli.Env, from, to string) error {
	all, err := Forks(e, from)
	if err != nil {
		return err
	}
	for state, o := range all {
		o.Root = to
		if err := o.Write(state); err != nil {
			return fmt.Errorf("join the fork %s to the project: %w", cli.Quote(o.Fork), err)
		}
	}
	return nil
}
