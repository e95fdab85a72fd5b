package supervisor

import (
	"context"
	"time"

	"cachebro/fusefs/mounts"
)

// mountd looks for processes that may change the source without going through the
// mount: repeatedly while there are any, and at once where its own mount table shows
// a new way to the source. Other mount namespaces give no such sign, but who makes one
// mostly mounts something here too. One look takes about 10 ms. At rest it looks
// rarely: the first record after a rest makes it look.
const (
	outsideEvery   = 2 * time.Second
	namespaceEvery = 10 * time.Second
	restingEvery   = time.Minute
)

// standing finds who reaches the source without going through the mount: those
// whose working directory or open files are inside and were so before.
func standing(c Config) []mounts.Proc {
	return mounts.Scan(c.Root, overlayIDs(c.Mountpoint), false, mounts.Ours)
}

// overlayIDs are the mounts of ours on a mountpoint, by mount id.
func overlayIDs(point string) map[int]bool {
	ids := map[int]bool{}
	overlays, err := mounts.Overlays()
	if err != nil {
		return ids
	}
	for _, m := range overlays {
		// What lies below the mountpoint was reached through it too: a mount
		// inside the project hides the source there.
		if mounts.Within(m.Point, point) {
			ids[m.ID] = true
		}
	}
	return ids
}

// watchOutside calls set whenever the answer to "is anybody outside?" changes, until
// ctx ends. The number of those who stand on the source from before the mount can
// only fall (a child inherits the working directory); mounts beside ours come and go. A
// value in changed makes it look at once, one in mounted soon.
func watchOutside(ctx context.Context, c Config, somebody bool, set func(bool), resting func() bool, changed, mounted <-chan struct{}) {
	for looked := time.Now(); ; looked = time.Now() {
		wait := namespaceEvery
		switch {
		case resting():
			wait = restingEvery
		case somebody:
			wait = outsideEvery
		}
		t := time.NewTimer(wait)
	sleep:
		for soon := mounted; ; {
			select {
			case <-ctx.Done():
				t.Stop()
				return
			case <-changed:
				break sleep
			case <-soon:
				soon = nil
				t.Reset(min(wait, max(0, namespaceEvery-time.Since(looked))))
			case <-t.C:
				break sleep
			}
		}
		t.Stop()
		began := time.Now()
		now := len(mounts.Beside(c.Mountpoint)) > 0 || somebody && len(standing(c)) > 0
		if now != somebody {
			somebody = now
			set(now)
		}
		// On a machine that mounts and unmounts all the time, containers say, the
		// looks take a tenth of a processor at most.
		select {
		case <-ctx.Done():
		case <-time.After(min(9*time.Since(began), outsideEvery/4)):
		}
	}
}
