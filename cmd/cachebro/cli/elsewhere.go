package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"cachebro/fusefs/mounts"
	"cachebro/store/leaf/procfs"
)

// errElsewhere: a project is mounted, and its history lies where our own
// environment does not look. Going on would begin a second history and say "not
// mounted" of what is.
type errElsewhere struct{ root, State, ours string }

func (e *errElsewhere) Error() string {
	return fmt.Sprintf("%s is mounted, but its history is in %s, not in %s (another XDG_STATE_HOME, CACHEBRO_DIR or HOME)", Quote(e.root), Quote(e.State), Quote(e.ours))
}

func (e *errElsewhere) Hint() string {
	return "export CACHEBRO_DIR=" + Arg(filepath.Dir(e.State))
}

// WithState is e as if CACHEBRO_DIR were base. It connects to a daemon, but
// starts none: that one would have our environment.
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

// OwnDir: is it a directory, and ours?
func OwnDir(path string) bool {
	fi, err := os.Lstat(path)
	if err != nil || !fi.IsDir() {
		return false
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && st.Uid == uint32(os.Getuid())
}

// Elsewhere tells whether a mount keeps its history somewhere else than we
// would; nil when it does not, or when its process cannot be seen.
func (e *Env) Elsewhere(m mounts.Mount) *errElsewhere {
	ours, err := e.Paths().State(m.Source)
	if err != nil {
		return nil
	}
	args := procfs.Args(mounts.FindMountd(m.Point))
	for i := range args {
		if args[i] == "--state" && i+1 < len(args) && args[i+1] != ours {
			return &errElsewhere{m.Source, args[i+1], ours}
		}
	}
	return nil
}

// MountedElsewhere asks that of a project's mounts.
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
