package main

import (
	"errors"
	"strings"
	"syscall"
	"time"

	"cachebro/fusefs/mounts"
)

// errDeadMount: mountd and its supervisor were killed together, so that nobody
// was left to detach the mount.
type errDeadMount struct{ point string }

func (e *errDeadMount) Error() string {
	return "the mount on " + quote(e.point) + " is dead: the processes that served it are gone"
}

func (e *errDeadMount) Hint() string {
	return "cachebro mount " + quote(e.point) + " mounts it again, cachebro umount " + quote(e.point) + " shows the plain project"
}

// deadMount tells whether a project's mount is dead; nil: it is not, or is not
// mounted at all.
func deadMount(root string) *errDeadMount {
	overlays, err := mounts.Overlays()
	if err != nil {
		return nil
	}
	for _, m := range overlays {
		if m.Source == root && errors.Is(mounts.Answers(m.Point, time.Second), mounts.ErrDead) {
			return &errDeadMount{m.Point}
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
			return &errDeadMount{m.Point}
		}
	}
	return nil
}
