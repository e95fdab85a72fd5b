package cli

import (
	"cmp"
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

	"golang.org/x/sys/unix"
)

// Target is a path that was named on the command line, resolved to its project.
type Target struct {
	Root  string // the project's root, as the daemon knows it
	Point string // the mountpoint; "" if the project is not mounted, or the mount cannot be seen from here
	Rel   []byte // relative to the root; empty for the root itself
}

// Shown returns a path of the history with this root as people see it. Paths of the user's own history
// become absolute.
func Shown(root string, path []byte) []byte {
	if root != wire.OutsideRoot || len(path) == 0 {
		return path
	}
	return append([]byte("/"), path...)
}

// Base returns the directory through which to access the project's files. If the project is
// mounted, that is the mountpoint, so that the overlay sees writes.
func (t Target) Base() string {
	if t.Point != "" {
		return t.Point
	}
	return t.Root
}

// errNoProject reports a directory that has neither a mount nor a history.
type errNoProject struct{ dir string }

func (e *errNoProject) Error() string {
	return fmt.Sprintf("%s has no history: it was never mounted", Quote(e.dir))
}
func (e *errNoProject) Hint() string { return "cachebro mount " + Arg(e.dir) }

// Locate finds the project of a path among the mounts, or else among the projects with a history.
// The path itself need not exist; "" is the working directory.
func (e *Env) Locate(given string) (Target, error) {
	path, err := e.Abs(given)
	if err != nil {
		return Target{}, err
	}
	overlays, err := mounts.Overlays()
	if err != nil {
		return Target{}, err
	}
	if err := e.Stopped(overlays, path); err != nil {
		return Target{}, err
	}
	real := ResolveParents(path)
	if err := e.Stopped(overlays, real); err != nil { // path leads into the mount through a symlink
		return Target{}, err
	}
	if m, ok := mounts.Above(overlays, real); ok {
		t := Target{Root: m.Source, Point: m.Point, Rel: []byte(mounts.Rel(real, m.Point))}
		return t, e.SecondHistory(m)
	}
	for _, m := range overlays { // the path may be in the source of a mount on another directory
		if mounts.Within(real, m.Source) {
			return Target{Root: m.Source, Point: m.Point, Rel: []byte(mounts.Rel(real, m.Source))}, nil
		}
	}
	if state, err := e.Paths().State(wire.OutsideRoot); err == nil && real == wire.OutsideRoot && IsDir(state) {
		return Target{Root: wire.OutsideRoot}, nil
	}
	if root, ok := e.Paths().Find(real); ok {
		return Target{Root: root, Rel: []byte(mounts.Rel(real, root))}, nil
	}
	if to := Followed(real); to != real && IsDir(to) { // a symlink outside of all projects
		if t, err := e.Locate(to); err == nil {
			return t, nil
		}
		return Target{Root: real}, &errNoProject{to}
	}
	if top, ok := mounts.Top(real); ok {
		real = top
	}
	dir := real
	if up := filepath.Dir(real); !IsDir(real) && IsDir(up) && up != "/" { // a file cannot be mounted
		dir = up
	}
	return Target{Root: real}, &errNoProject{dir}
}

// Stopped returns an error if path is in a mount, or in the source of a mount, that does not answer
// because a signal stopped its mountd. Commands call it before they use a path, because afterwards
// they would wait for the mount and could not be interrupted.
func (e *Env) Stopped(overlays []mounts.Mount, path string) error {
	for _, m := range overlays {
		if !mounts.Within(path, m.Point) && !mounts.Within(path, m.Source) {
			continue
		}
		state, err := e.Paths().State(m.Source)
		if err == nil {
			err = supervisor.StoppedMount(state)
		}
		if errors.Is(err, wire.ErrTimeout) {
			return err
		}
	}
	return nil
}

// Known reports whether a path is in a project that is mounted or was mounted before.
func (e *Env) Known(given string) bool {
	_, err := e.Locate(given)
	var elsewhere *errElsewhere
	return err == nil || errors.As(err, &elsewhere) || errors.Is(err, wire.ErrTimeout)
}

// ResolveParents resolves the symlinks in a path, except for its last element, which may be the
// link that the caller means. The path need not exist.
func ResolveParents(path string) string {
	dir, tail := filepath.Dir(path), filepath.Base(path)
	for dir != "/" {
		real, err := filepath.EvalSymlinks(dir)
		if err == nil {
			return filepath.Join(real, tail)
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			break // a dead mount, or no permission
		}
		dir, tail = filepath.Dir(dir), filepath.Join(filepath.Base(dir), tail)
	}
	return path
}

// maxLinks is the number of symlinks that Linux follows in a path.
const maxLinks = 40

// Followed follows a symlink, and the symlinks that it leads to, and returns the final target. If
// path is no symlink, it returns path. It does not open the target, which may be on a mount that
// does not answer.
func Followed(path string) string {
	for range maxLinks {
		to, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = ResolveParents(to)
	}
	return path
}

// Connect connects to the project's daemon and starts it if needed.
func (e *Env) Connect(ctx context.Context, root string) (*wire.Client, error) {
	return e.ConnectAs(ctx, root, "cli", wire.Timeouts{})
}

// ConnectAs is Connect with another client name and other timeouts. t.Connect also bounds the time
// to start the daemon.
func (e *Env) ConnectAs(ctx context.Context, root, client string, t wire.Timeouts) (*wire.Client, error) {
	hello := wire.Hello{Version: Version, Client: client, Root: root}
	if !e.starts {
		return wire.Dial(ctx, e.Paths(), hello, t)
	}
	c, err := wire.DialOrStart(ctx, e.Paths(), hello, t,
		wire.Start{Self: e.serving(root), Replace: true, Within: cmp.Or(t.Connect, 20*time.Second)})
	if err != nil {
		state, _ := e.Paths().State(root)
		err = supervisor.Explain(err, state)
	}
	return c, err
}

// Open locates a path and connects to its project's daemon. For a path outside all projects it
// opens the user's own history, which records what watched commands change there.
func (e *Env) Open(ctx context.Context, given string) (Target, *wire.Client, error) {
	t, err := e.Locate(given)
	if errors.As(err, new(*errNoProject)) && given != "." {
		if own, c, err := e.OpenOutside(ctx, given); err == nil {
			known, err := wire.Call[wire.LogAnswer](ctx, c, wire.MLog, wire.LogQuery{Path: own.Rel, Limit: 1, Baselines: true})
			if err == nil && len(known.Versions) > 0 {
				return own, c, nil
			}
			c.Close()
		}
	}
	if err != nil {
		return t, nil, err
	}
	c, err := e.Connect(ctx, t.Root)
	if err != nil {
		c.Close()
	}
	return t, c, err
}

// Ask sends one request to the daemon of the project that a path is in.
func Ask[R any](ctx context.Context, e *Env, given, method string, params any) (r R, err error) {
	_, c, err := e.Open(ctx, given)
	if err != nil {
		return r, err
	}
	defer c.Close()
	return wire.Call[R](ctx, c, method, params)
}

// OpenOutside opens the user's own history and locates given in it.
func (e *Env) OpenOutside(ctx context.Context, given string) (Target, *wire.Client, error) {
	t, err := e.inOutside(given)
	if err != nil {
		return t, nil, err
	}
	if state, err := e.Paths().State(wire.OutsideRoot); err != nil || !IsDir(state) {
		return t, nil, errors.Join(err, Hintf("cachebro run -- COMMAND", "no watched command has changed anything outside of a project"))
	}
	c, err := e.Connect(ctx, t.Root)
	if err != nil {
		c.Close()
	}
	return t, c, err
}

// inOutside locates a path in the user's own history.
func (e *Env) inOutside(given string) (Target, error) {
	path, err := e.Abs(given)
	return Target{Root: wire.OutsideRoot, Rel: []byte(mounts.Rel(ResolveParents(path), wire.OutsideRoot))}, err
}

// LocateIn locates a further path argument of a command whose first path is in the history of t.
func (e *Env) LocateIn(t Target, given string) (Target, error) {
	other, err := e.Locate(given)
	if t.Root == wire.OutsideRoot && errors.As(err, new(*errNoProject)) {
		return e.inOutside(given)
	}
	return other, err
}

// Exists reports whether the path that the user named exists.
func (t Target) Exists() bool {
	_, err := os.Lstat(filepath.Join(t.Base(), string(t.Rel)))
	return len(t.Rel) == 0 || err == nil
}

// CheckKnown returns an error if a path does not exist and has no version in the history either.
func (e *Env) CheckKnown(ctx context.Context, c *wire.Client, t Target) error {
	if t.Exists() {
		return nil
	}
	a, err := wire.Call[wire.LogAnswer](ctx, c, wire.MLog, wire.LogQuery{Path: t.Rel, Baselines: true, Limit: 1})
	if err == nil && len(a.Versions) == 0 {
		return Hintf("cachebro search --files PART finds names, also those of deleted files", "the history has nothing named %s", Quote(string(t.Rel)))
	}
	return err
}

// LockDir locks a directory until unlock is called. It waits while another process has locked it.
func LockDir(dir string) (unlock func(), err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(d.Fd()), unix.LOCK_EX); err != nil {
		d.Close()
		return nil, err
	}
	return func() { d.Close() }, nil
}

// IsDir reports whether path is a directory. It does not follow a symlink.
func IsDir(path string) bool {
	fi, err := os.Lstat(path)
	return err == nil && fi.IsDir()
}

// atNearestDir returns the target of a path that is in neither a mount nor a project with a
// history. Its root is the nearest existing directory.
func (t Target) atNearestDir(real string) Target {
	if fi, err := os.Stat(t.Root); err == nil && !fi.IsDir() {
		t.Root = filepath.Dir(t.Root)
	}
	for !IsDir(t.Root) && t.Root != "/" {
		t.Root = filepath.Dir(t.Root)
	}
	t.Rel = []byte(mounts.Rel(real, t.Root))
	return t
}

// LocateOrTop is Locate for commands that need neither a mount nor a history. Without either, the
// project is the top of the git work tree, or the directory itself.
func (e *Env) LocateOrTop(given string) (Target, error) {
	t, err := e.Locate(given)
	switch err.(type) {
	case nil, *errElsewhere:
		return t, nil
	case *errNoProject:
	default:
		return t, err
	}
	path, err := e.Abs(given)
	if err != nil {
		return t, err
	}
	return t.atNearestDir(ResolveParents(path)), nil
}

// EndDaemon asks the store daemon of a root to end, if one is running, and waits for its end.
func (e *Env) EndDaemon(ctx context.Context, root string) {
	c, err := wire.Dial(ctx, e.Paths(), wire.Hello{Version: Version, Client: "cli", Root: root}, wire.Timeouts{Connect: time.Second, Answer: 5 * time.Second})
	if c == nil {
		return
	}
	defer c.Close()
	pid := c.Hello().PID
	if err == nil || errors.Is(err, wire.ErrVersion) {
		_, _ = c.Call(ctx, wire.MShutdown, wire.Empty{}, nil, nil)
	}
	for start := time.Now(); pid > 1 && mounts.Running(pid, 0) && time.Since(start) < 10*time.Second && ctx.Err() == nil; {
		time.Sleep(20 * time.Millisecond)
	}
}
