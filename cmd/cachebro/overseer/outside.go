package overseer

import (
	"context"
	"time"

	"cachebro/cmd/cachebro/project"
)

// outsideEvery is how often we look whether somebody from before the mount
// still stands on the source. One look takes about 10 ms, and is made only as
// long as there is somebody.
const outsideEvery = 2 * time.Second

// standing finds who reaches the source without going through the mount: those
// whose working directory or open files are inside and were so before.
func standing(c Config) []project.Proc {
	return project.Scan(c.Root, overlayIDs(c.Mountpoint), false, project.Ours)
}

// overlayIDs are the mounts of ours on a mountpoint, by mount id.
func overlayIDs(point string) map[int]bool {
	ids := map[int]bool{}
	mounts, err := project.Overlays()
	if err != nil {
		return ids
	}
	for _, m := range mounts {
		// What lies below the mountpoint was reached through it too: a mount
		// inside the project hides the source there.
		if project.Within(m.Point, point) {
			ids[m.ID] = true
		}
	}
	return ids
}

// untilClear calls set(false) once nobody stands on the source any more. It
// returns then, or when ctx ends. New ones can come only from those that are
// there (a child inherits the working directory), so that an empty look is the
// last one.
func untilClear(ctx context.Context, c Config, set func(bool)) {
	t := time.NewTicker(outsideEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if len(standing(c)) == 0 {
			set(false)
			return
		}
	}
}
