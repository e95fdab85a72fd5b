package mounts

import (
	"errors"
	"fmt"
	"syscall"
	"time"
)

// FSType is the file system type of cachebro's mounts in the mount table.
const FSType = "fuse.cachebro"

// Mount is one line of the mount table.
type Mount struct {
	ID     int
	Parent int    // ID of the parent mount
	Dev    string // major:minor; minor is the name of the FUSE connection in /sys/fs/fuse/connections
	Root   string // the mounted directory of the file system
	Point  string
	Type   string
	Source string // path of the source, for a cachebro mount
	UID    int    // user who mounted it, for a FUSE mount; otherwise -1
}

// Overlays lists cachebro's mounts in this mount namespace, oldest first.
func Overlays() ([]Mount, error) {
	all, err := Mounts()
	if err != nil {
		return nil, err
	}
	var ours []Mount
	for _, m := range all {
		if m.Type == FSType {
			ours = append(ours, m)
		}
	}
	return ours, nil
}

// At returns the newest mount on exactly the directory point.
func At(mounts []Mount, point string) (Mount, bool) {
	for i := len(mounts) - 1; i >= 0; i-- {
		if mounts[i].Point == point {
			return mounts[i], true
		}
	}
	return Mount{}, false
}

// Above returns the innermost mount that contains dir, which may be on dir itself.
func Above(mounts []Mount, dir string) (best Mount, ok bool) {
	for _, m := range mounts {
		if Within(dir, m.Point) && (!ok || len(m.Point) >= len(best.Point)) {
			best, ok = m, true
		}
	}
	return best, ok
}

// Below returns a mount in dir's subtree, not on dir itself.
func Below(mounts []Mount, dir string) (Mount, bool) {
	for _, m := range mounts {
		if m.Point != dir && Within(m.Point, dir) {
			return m, true
		}
	}
	return Mount{}, false
}

// ErrDead means that the process that serves a mount has ended.
var ErrDead = errors.New("transport endpoint is not connected: the process that served the mount is gone")

// ErrHung means that a mount does not answer.
var ErrHung = errors.New("the mount does not answer")

// Answers calls statfs on a mount and waits at most limit for the result. It returns nil if a
// process serves the mount. If the mount hangs, the goroutine that called statfs remains until the
// mount ends.
func Answers(point string, limit time.Duration) error {
	done := make(chan error, 1)
	go func() {
		var st syscall.Statfs_t
		err := syscall.Statfs(point, &st)
		if err == nil && dead(&st) {
			err = syscall.ENOTCONN
		}
		done <- err
	}()
	select {
	case err := <-done:
		switch {
		case errors.Is(err, syscall.ENOTCONN), errors.Is(err, syscall.ECONNABORTED):
			return ErrDead
		case err != nil:
			return fmt.Errorf("%s: %w", point, err)
		}
		return nil
	case <-time.After(limit):
		return ErrHung
	}
}
