package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"cachebro/fusefs/mounts"
	"cachebro/store/wire"
)

// setUpFile in a project's state directory says that up or init --project was
// run for it: an agent's session that begins there mounts it. Its content is
// the root, for lists of projects and for uninstall.
const setUpFile = "setup"

// markSetUp writes or removes the mark.
func (e *env) markSetUp(root string, on bool) error {
	if !on {
		state, err := e.paths().State(root)
		if err != nil {
			return err
		}
		if err := os.Remove(filepath.Join(state, setUpFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	state, err := e.paths().MakeState(root)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(state, setUpFile), []byte(root+"\n"), 0o600)
}

// isSetUp costs one stat.
func isSetUp(p wire.Paths, root string) bool {
	state, err := p.State(root)
	if err != nil {
		return false
	}
	_, err = os.Lstat(filepath.Join(state, setUpFile))
	return err == nil
}

// setUpRoots lists the projects that were set up.
func (e *env) setUpRoots() []string {
	base, err := e.paths().StateBase()
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

// mountForSession mounts a project that was set up, for a session that begins
// in it. mounted is false without an error where nobody asked for a mount.
func (e *env) mountForSession(ctx context.Context, root string) (mounted bool, err error) {
	if !isSetUp(e.paths(), root) {
		return false, nil
	}
	m, err := e.planMount(root, mountFlags{exact: true})
	if err != nil {
		return false, err
	}
	if m.already {
		return true, nil
	}
	if _, err := e.launch(ctx, m); err != nil {
		// Another session that began at the same moment may have been faster.
		if overlays, merr := mounts.Overlays(); merr == nil && mountedHere(overlays, root) {
			return true, nil
		}
		return false, fmt.Errorf("mount %s: %w", quote(root), err)
	}
	return true, nil
}
