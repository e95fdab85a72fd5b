package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"cachebro/fusefs/mounts"
	"cachebro/fusefs/mounts/supervisor"
	"cachebro/store/wire"
)

// target is a path that was named on the command line, found in its project.
type target struct {
	root  string // the project's root, as the daemon knows it
	point string // where it is mounted, "" when it is not (or not to be seen from here)
	rel   []byte // relative to the root; empty: the root itself
	given string // as it was typed
}

// base is where to write so that the overlay sees it, if there is one.
func (t target) base() string {
	if t.point != "" {
		return t.point
	}
	return t.root
}

// errNoProject: nothing is known of the directory.
type errNoProject struct{ dir string }

func (e *errNoProject) Error() string {
	return fmt.Sprintf("%s has no history: it was never mounted", quote(e.dir))
}
func (e *errNoProject) Hint() string { return "cachebro mount " + arg(e.dir) }

// locate finds the project of a path: by the mounts, then by what has been
// mounted before. The path itself need not exist; "" is the working directory.
func (e *env) locate(given string) (target, error) {
	path, err := e.abs(given)
	if err != nil {
		return target{}, err
	}
	real := resolveParents(path)
	overlays, err := mounts.Overlays()
	if err != nil {
		return target{}, err
	}
	if m, ok := mounts.Above(overlays, real); ok {
		t := target{root: m.Source, point: m.Point, rel: []byte(mounts.Rel(real, m.Point)), given: given}
		// Looking for it costs a look at all processes; with a state directory
		// of our own nothing new would begin, and status says the rest.
		if state, err := e.paths().State(m.Source); err == nil && !isDir(state) {
			if other := e.elsewhere(m); other != nil {
				return t, other
			}
		}
		return t, nil
	}
	for _, m := range overlays { // the source side of a mount elsewhere
		if mounts.Within(real, m.Source) {
			return target{root: m.Source, point: m.Point, rel: []byte(mounts.Rel(real, m.Source)), given: given}, nil
		}
	}
	if root, ok := e.paths().Find(real); ok {
		return target{root: root, rel: []byte(mounts.Rel(real, root)), given: given}, nil
	}
	if top, ok := mounts.Top(real); ok {
		real = top
	}
	return target{root: real, given: given}, &errNoProject{real}
}

// resolveParents follows the symlinks in a path but for its last element, which
// may itself be a link that is asked for, or gone together with its parents.
func resolveParents(path string) string {
	dir, tail := filepath.Dir(path), filepath.Base(path)
	for dir != "/" {
		real, err := filepath.EvalSymlinks(dir)
		if err == nil {
			return filepath.Join(real, tail)
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			break // a dead mount, or no permission: the name is all there is
		}
		dir, tail = filepath.Dir(dir), filepath.Join(filepath.Base(dir), tail)
	}
	return path
}

// directory finds the project that a directory argument means; without one, the
// working directory's.
func (e *env) directory(args []string) (target, error) {
	if len(args) == 0 {
		return e.locate(".")
	}
	return e.locate(args[0])
}

// connect calls the project's daemon, started if needed.
func (e *env) connect(ctx context.Context, root string) (*wire.Client, error) {
	return e.connectAs(ctx, root, "cli", wire.Timeouts{})
}

func (e *env) connectAs(ctx context.Context, root, client string, t wire.Timeouts) (*wire.Client, error) {
	hello := wire.Hello{Version: version, Client: client, Root: root}
	if !e.starts {
		return wire.Dial(ctx, e.paths(), hello, t)
	}
	c, err := wire.DialOrStart(ctx, e.paths(), hello, t,
		wire.Start{Self: e.exe, Replace: true, Within: 20 * time.Second})
	if err != nil {
		state, _ := e.paths().State(root)
		err = supervisor.Explain(err, state)
	}
	return c, err
}

// open is locate and connect.
func (e *env) open(ctx context.Context, given string) (target, *wire.Client, error) {
	t, err := e.locate(given)
	if err != nil {
		return t, nil, err
	}
	c, err := e.connect(ctx, t.root)
	if err != nil && c != nil {
		c.Close()
	}
	return t, c, err
}

// isDir asks without following a symlink; a path that is gone is none.
func isDir(path string) bool {
	fi, err := os.Lstat(path)
	return err == nil && fi.IsDir()
}

// within is the target of a path below a root that no mount or history knows.
func (t target) within(real string) target {
	if fi, err := os.Stat(t.root); err == nil && !fi.IsDir() {
		t.root = filepath.Dir(t.root)
	}
	for !isDir(t.root) && t.root != "/" {
		t.root = filepath.Dir(t.root)
	}
	t.rel = []byte(mounts.Rel(real, t.root))
	return t
}
