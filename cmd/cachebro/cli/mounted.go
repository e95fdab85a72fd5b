package cli

import (
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"
	"time"

	"cachebro/fusefs/mounts"
	"cachebro/store/wire"
)

// ErrDeadMount reports a mount that is still attached although its mountd and supervisor were both
// killed.
type ErrDeadMount struct{ Point string }

func (e *ErrDeadMount) Error() string {
	return "the mount on " + Quote(e.Point) + " is dead: the processes that served it are gone"
}

func (e *ErrDeadMount) Hint() string {
	return "cachebro mount " + Quote(e.Point) + " mounts it again, cachebro umount " + Quote(e.Point) + " shows the plain project"
}

// DeadMount returns an error if the project's mount is dead. It returns nil if the mount is alive
// or the project is not mounted.
func DeadMount(root string) *ErrDeadMount {
	return deadAmong(func(m mounts.Mount) bool { return m.Source == root })
}

func deadAmong(fits func(mounts.Mount) bool) *ErrDeadMount {
	overlays, _ := mounts.Overlays() // on an error, no mount counts as dead
	for _, m := range overlays {
		if fits(m) && errors.Is(mounts.Answers(m.Point, time.Second), mounts.ErrDead) {
			return &ErrDeadMount{m.Point}
		}
	}
	return nil
}

// explainDead returns an error that names the dead mount, if err is the kernel's error for a dead
// mount. Otherwise it returns nil. err may come from this process or from the daemon.
func explainDead(err error) error {
	if !errors.Is(err, syscall.ENOTCONN) && !strings.Contains(err.Error(), syscall.ENOTCONN.Error()) {
		return nil
	}
	dead := deadAmong(func(m mounts.Mount) bool { return strings.Contains(err.Error(), m.Point) })
	if dead == nil {
		return nil
	}
	return dead
}

// AskStatus asks the daemon for its status. If the project is mounted but its mountd has not
// attached to a new daemon yet, AskStatus waits up to 3 s for that. Otherwise it would report the
// project as not mounted.
func (e *Env) AskStatus(ctx context.Context, c *wire.Client) (wire.Status, error) {
	for wait := 0; ; wait++ {
		st, err := wire.Call[wire.Status](ctx, c, wire.MStatus, wire.Empty{})
		if err != nil || st.Mounted || wait >= 30 {
			return st, err
		}
		overlays, _ := mounts.Overlays()
		if !MountedHere(overlays, c.Root()) {
			return st, nil
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// MountedHere reports whether one of the overlays is a mount of the project at root and answers.
func MountedHere(overlays []mounts.Mount, root string) bool {
	return slices.ContainsFunc(overlays, func(m mounts.Mount) bool {
		return m.Source == root && mounts.Answers(m.Point, time.Second) == nil
	})
}

// OverlayIDs returns the ids of a project's mounts in this mount namespace.
func OverlayIDs(root string) map[int]bool {
	ids := map[int]bool{}
	overlays, _ := mounts.Overlays()
	for _, m := range overlays {
		if m.Source == root {
			ids[m.ID] = true
		}
	}
	return ids
}
