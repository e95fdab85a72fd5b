package main

import (
	"fmt"
	"path/filepath"

	"cachebro/cmd/cachebro/project"
)

// errElsewhere: a project is mounted, and its history lies where our own
// environment does not look. Going on would begin a second history and say "not
// mounted" of what is.
type errElsewhere struct{ root, state, ours string }

func (e *errElsewhere) Error() string {
	return fmt.Sprintf("%s is mounted, but its history is in %s, not in %s (another XDG_STATE_HOME, CACHEBRO_DIR or HOME)", quote(e.root), quote(e.state), quote(e.ours))
}

func (e *errElsewhere) Hint() string {
	return "export CACHEBRO_DIR=" + quote(filepath.Dir(e.state))
}

// elsewhere tells whether a mount keeps its history somewhere else than we
// would; nil when it does not, or when its process cannot be seen.
func (e *env) elsewhere(m project.Mount) *errElsewhere {
	ours, err := e.paths().State(m.Source)
	if err != nil {
		return nil
	}
	args := project.Command(project.FindMountd(m.Point))
	for i := range args {
		if args[i] == "--state" && i+1 < len(args) && args[i+1] != ours {
			return &errElsewhere{m.Source, args[i+1], ours}
		}
	}
	return nil
}

// mountedElsewhere asks that of a project's mounts.
func (e *env) mountedElsewhere(root string) *errElsewhere {
	mounts, err := project.Overlays()
	if err != nil {
		return nil
	}
	for _, m := range mounts {
		if m.Source == root {
			if other := e.elsewhere(m); other != nil {
				return other
			}
		}
	}
	return nil
}
