package cli

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"time"

	"cachebro/fusefs/mounts"
	"cachebro/store/wire"
)

// ErrDeadMount: mountd and its supervisor were killed together, so that nobody
// was left to detach the mount.
type ErrDeadMount struct{ Point string }

func (e *ErrDeadMount) Error() string {
	return "the mount on " + Quote(e.Point) + " is dead: the processes that served it are gone"
}

func (e *ErrDeadMount) Hint() string {
	return "cachebro mount " + Quote(e.Point) + " mounts it again, cachebro umount " + Quote(e.Point) + " shows the plain project"
}

// DeadMount tells whether a project's mount is dead; nil: it is not, or is not
// mounted at all.
func DeadMount(root string) *ErrDeadMount {
	overlays, err := mounts.Overlays()
	if err != nil {
		return nil
	}
	for _, m := range overlays {
		if m.Source == root && errors.Is(mounts.Answers(m.Point, time.Second), mounts.ErrDead) {
			return &ErrDeadMount{m.Point}
		}
	}
	return nil
}

// explainDead finds the dead mount behind the kernel's words for it, here or in
// the daemon.
func explainDead(err error) error {
	if !errors.Is(err, syscall.ENOTCONN) && !strings.Contains(err.Error(), syscall.ENOTCONN.Error()) {
		return nil
	}
	overlays, merr := mounts.Overlays()
	if merr != nil {
		return nil
	}
	for _, m := range overlays {
		if strings.Contains(err.Error(), m.Point) && errors.Is(mounts.Answers(m.Point, time.Second), mounts.ErrDead) {
			return &ErrDeadMount{m.Point}
		}
	}
	return nil
}

// AskStatus asks; a mountd that has not said hello to a new daemon yet is given
// a moment, so that "not mounted" is true when it is said.
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

// MountedHere reports whether one of the overlays is the project's and answers.
func MountedHere(overlays []mounts.Mount, root string) bool {
	for _, m := range overlays {
		if m.Source == root && mounts.Answers(m.Point, time.Second) == nil {
			return true
		}
	}
	return false
}

// OverlayIDs are the ids of a project's mounts in this mount namespace.
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
