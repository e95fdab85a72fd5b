package wire

import (
	"context"
	"os"

	"cachebro/store/leaf/loop"

	"golang.org/x/sys/unix"
)

// watchPlaces reports removals and renames of the places and their parent directories. It returns
// false if not all changes can be reported. A directory that a process holds open does not report
// its own removal, but its parent does.
//
// The subtree of a place is not watched. Its changes do not matter, and accessing it could block on
// a mount.
func watchPlaces(ctx context.Context, places []Place) (<-chan struct{}, bool) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, false
	}
	const self = unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR | unix.IN_MASK_ADD
	complete := true
	for _, p := range places {
		for i, dir := range dirsAbove(p.Path) {
			mask := uint32(self)
			if i == 0 {
				mask |= unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO
			}
			if _, err := unix.InotifyAddWatch(fd, dir, mask); err != nil && i == 0 {
				complete = false // a directory is unreadable, or there are too many watches
			}
		}
	}
	f := os.NewFile(uintptr(fd), "inotify")
	events := make(chan struct{}, 1) // never closed
	stop := context.AfterFunc(ctx, func() { f.Close() })
	go func() {
		defer stop()
		defer f.Close()
		buf := make([]byte, 16<<10)
		for {
			if _, err := f.Read(buf); err != nil {
				return
			}
			loop.Wake(events)
		}
	}()
	return events, complete
}
