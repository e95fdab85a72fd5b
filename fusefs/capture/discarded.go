package capture

import (
	"fmt"
	"sync"
	"time"
)

// discarded counts files deleted in excluded directories, so that an undo can report what it cannot
// restore.
type discarded struct {
	// mu guards dirs.
	mu   sync.Mutex
	dirs map[string]tally // by directory, until the directory is removed
}

// tally counts the files that were deleted in the subtree of a directory.
type tally struct {
	files int
	bytes int64
	last  time.Time
}

const (
	// tallyLasts is the longest pause within one deletion.
	tallyLasts = 10 * time.Minute
	maxTallies = 100_000
)

func (d *discarded) add(dir string, files int, bytes int64) {
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dirs == nil || len(d.dirs) >= maxTallies {
		d.dirs = map[string]tally{}
	}
	t := d.dirs[dir]
	if now.Sub(t.last) > tallyLasts {
		t = tally{}
	}
	d.dirs[dir] = tally{t.files + files, t.bytes + bytes, now}
}

// takeTally returns and forgets the count of a directory that was itself removed.
func (d *discarded) takeTally(dir string) tally {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.dirs[dir]
	delete(d.dirs, dir)
	return t
}

func (t tally) String() string {
	files := fmt.Sprintf("%d files", t.files)
	if t.files == 1 {
		files = "1 file"
	}
	switch b := float64(t.bytes); {
	case b >= 1<<20:
		return fmt.Sprintf("%s, %.1f MiB", files, b/(1<<20))
	case b >= 1<<10:
		return fmt.Sprintf("%s, %.1f KiB", files, b/(1<<10))
	}
	return fmt.Sprintf("%s, %d bytes", files, t.bytes)
}
