package mounting

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"cachebro/cmd/cachebro/cli"
	"cachebro/fusefs/mounts"
	"cachebro/store/wire"
)

// setUpFile is a file in a project's state directory. It exists if up or init --project was run for
// the project. An agent's session that begins in the project then mounts the project. The file
// contains the project's root, for lists of projects and for uninstall.
const setUpFile = "setup"

// MarkSetUp writes setUpFile if on is true, and removes it otherwise.
func MarkSetUp(e *cli.Env, root string, on bool) error {
	if !on {
		state, err := e.Paths().State(root)
		if err != nil {
			return err
		}
		if err := os.Remove(filepath.Join(state, setUpFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	state, err := e.Paths().MakeState(root)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(state, setUpFile), []byte(root+"\n"), 0o600)
}

// isSetUp reports whether a project was set up. It costs one stat.
func isSetUp(p wire.Paths, root string) bool {
	state, err := p.State(root)
	if err != nil {
		return false
	}
	_, err = os.Lstat(filepath.Join(state, setUpFile))
	return err == nil
}

// SetUpRoots lists the projects that were set up.
func SetUpRoots(e *cli.Env) []string {
	base, err := e.Paths().StateBase()
	if err != nil {
		return nil
	}
	marks, _ := filepath.Glob(filepath.Join(base, "*", setUpFile))
	var roots []string
	for _, m := range marks {
		b, err := os.ReadFile(m)
		root := string(b)
		if n := len(root); err == nil && n > 1 && root[n-1] == '\n' && filepath.IsAbs(root) {
			roots = append(roots, root[:n-1])
		}
	}
	return roots
}

// MountForSession mounts a project when a session begins in it, if the project was set up.
// Otherwise mounted is false and err is nil.
func MountForSession(ctx context.Context, e *cli.Env, root string) (mounted bool, err error) {
	if !isSetUp(e.Paths(), root) {
		return false, nil
	}
	m, err := PlanMount(e, root, MountFlags{Exact: true})
	if err != nil {
		return false, err
	}
	if m.Already {
		return true, nil
	}
	if _, err := Launch(ctx, e, m); err != nil {
		// Another session that began at the same moment may have been faster.
		if overlays, merr := mounts.Overlays(); merr == nil && cli.MountedHere(overlays, root) {
			return true, nil
		}
		return false, fmt.Errorf("mount %s: %w", cli.Quote(root), err)
	}
	return true, nil
}

// RootOf returns the root of the project that a state directory belongs to, or "" if it is unknown.
// mount and up store the root.
func RootOf(state string) string {
	b, _ := os.ReadFile(filepath.Join(state, setUpFile)) // the file exists only after up
	return cmp.Or(mounts.ReadIdentity(state).Root, strings.TrimSuffix(string(b), "\n"))
}
