package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"cachebro/fusefs/mounts"
	"cachebro/store/leaf/procfs"
)

// errElsewhere reports that the history of a mounted project is not in the state directory of this
// command's environment. Without this error, a command would begin a second history and report the
// project as not mounted.
type errElsewhere struct {
	root, State, ours string
	uid               int // of the user who mounted the project
}

func (e *errElsewhere) Error() string {
	if e.foreign() {
		return fmt.Sprintf("%s was mounted by user %d, whose history %s has its changes", Quote(e.root), e.uid, Quote(e.State))
	}
	return fmt.Sprintf("%s is mounted, but its history is in %s, not in %s (another XDG_STATE_HOME, CACHEBRO_DIR or HOME)", Quote(e.root), Quote(e.State), Quote(e.ours))
}

func (e *errElsewhere) Hint() string {
	if e.foreign() {
		return fmt.Sprintf("only that user can undo them: sudo -u '#%d' …", e.uid)
	}
	return "export CACHEBRO_DIR=" + Arg(filepath.Dir(e.State))
}

// foreign reports whether another user mounted the project. As root, this command can use the history
// of any user.
func (e *errElsewhere) foreign() bool { return os.Getuid() != 0 && e.uid != os.Getuid() }

// WithState returns a copy of e that uses base as CACHEBRO_DIR. The copy connects to a daemon but
// never starts one, because the daemon would inherit this command's environment.
func (e *Env) WithState(base string) *Env {
	sub := *e
	sub.starts = false
	sub.Getenv = func(name string) string {
		if name == "CACHEBRO_DIR" {
			return base
		}
		return e.Getenv(name)
	}
	return &sub
}

// OwnDir reports whether path is a directory that belongs to this user.
func OwnDir(path string) bool {
	fi, err := os.Lstat(path)
	if err != nil || !fi.IsDir() {
		return false
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && st.Uid == uint32(os.Getuid())
}

// Elsewhere returns an error if the history of a mount is not in the state directory of this
// command's environment. It returns nil if mountd's command line cannot be read.
func (e *Env) Elsewhere(m mounts.Mount) *errElsewhere {
	ours, err := e.Paths().State(m.Source)
	if err != nil {
		return nil
	}
	args := procfs.Args(mounts.FindMountd(m.Point))
	for i := range args {
		if args[i] == "--state" && i+1 < len(args) && args[i+1] != ours {
			return &errElsewhere{m.Source, args[i+1], ours, m.UID}
		}
	}
	return nil
}

// SecondHistory returns the error of Elsewhere if this command would otherwise begin a second history,
// or use one that it began earlier in another user's mount. It is faster than Elsewhere, which
// examines all processes.
func (e *Env) SecondHistory(m mounts.Mount) error {
	state, err := e.Paths().State(m.Source)
	if err != nil || IsDir(state) && m.UID == os.Getuid() {
		return nil
	}
	if other := e.Elsewhere(m); other != nil {
		return other
	}
	return nil
}

// MountedElsewhere returns the first error that Elsewhere returns for a mount of the project in
// root, or nil.
func (e *Env) MountedElsewhere(root string) *errElsewhere {
	overlays, err := mounts.Overlays()
	if err != nil {
		return nil
	}
	for _, m := range overlays {
		if m.Source == root {
			if other := e.Elsewhere(m); other != nil {
				return other
			}
		}
	}
	return nil
}
