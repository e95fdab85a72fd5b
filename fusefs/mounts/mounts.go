package mounts

import (
	"errors"
	"fmt"
	"syscall"
	"time"
)

// FSType is how a cachebro mount shows in the mount table.
const FSType = "fuse.cachebro"

// Mount is one line of the mount table.
type Mount struct {
	ID     int
	Parent int    // ID of the mount that it is on
	Dev    string // major:minor, names the FUSE connection in /sys/fs/fuse/connections
	Root   string // the directory of the file system that it shows
	Point  string
	Type   string
	Source string // for ours: the path of the source
	UID    int    // for FUSE: who mounted it; else -1
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

// At returns the newest of mounts on exactly this directory.
func At(mounts []Mount, point string) (Mount, bool) {
	for i := len(mounts) - 1; i >= 0; i-- {
		if mounts[i].Point == point {
			return mounts[i], true
		}
	}
	return Mount{}, false
}

// Above returns the innermost of mounts that dir lies in, itself included.
func Above(mounts []Mount, dir string) (best Mount, ok bool) {
	for _, m := range mounts {
		if Within(dir, m.Point) && (!ok || len(m.Point) >= len(best.Point)) {
			best, ok = m, true
		}
	}
	return best, ok
}

// Below returns a mount strictly inside dir.
func Below(mounts []Mount, dir string) (Mount, bool) {
	for _, m := range mounts {
		if m.Point != dir && Within(m.Point, dir) {
			return m, true
		}
	}
	return Mount{}, false
}

// ErrDead means that the process that served a mount is gone.
var ErrDead = errors.New("transport endpoint is not connected: the process that served the mount is gone")

// ErrHung means that a mount does not answer.
var ErrHung = errors.New("the mount does not answer")

// Answers asks a mount for its file system data and waits at most limit. It returns nil
// if the mount is served. The goroutine of a hung mount ends when the mount does.
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
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case err := <-done:
		switch {
		case errors.Is(err, syscall.ENOTCONN), errors.Is(err, syscall.ECONNABORTED):
			return ErrDead
		case err != nil:
			return fmt.Errorf("%s: %w", point, err)
		}
		return nil
	case <-t.C:
		return ErrHung
	}
}
