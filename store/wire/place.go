package wire

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"cachebro/store/leaf/loop"
)

// Place is a path that a process depends on, with a check whether it is still the same file.
//
// A process has no users any more if its state directory, socket or project is gone or was
// replaced. It must then exit instead of retrying forever. The kernel reports removals and renames
// (inotify), so an idle process does not wake up. Checks at long intervals find what the kernel
// does not report, such as a file system mounted over a directory.
type Place struct {
	Path string
	// Gone returns an error that describes what happened to the path, or nil if it is unchanged.
	Gone func() error
}

// SamePlace returns the Place of the present file at path. It does not follow symbolic links.
func SamePlace(path string) (Place, error) {
	was, err := os.Lstat(path)
	if err != nil {
		return Place{}, err
	}
	return Place{path, func() error { return FileDiffers(path, was) }}, nil
}

// FileDiffers returns an error if path does not exist or is another file than was. It returns nil
// if path cannot be examined for another reason.
func FileDiffers(path string, was os.FileInfo) error {
	now, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%s is gone", path)
	case err == nil && !os.SameFile(was, now):
		return fmt.Errorf("%s has been replaced", path)
	}
	return nil
}

const (
	// placePollEvery is the interval of the checks if the kernel reports nothing.
	placePollEvery = time.Second
	// placeCalm is the pause between an event and the check. It limits the number of checks if a
	// parent directory of a place changes often.
	placeCalm = 100 * time.Millisecond
)

// placeLookEvery is the interval of the checks if the kernel reports changes.
var placeLookEvery = 15 * time.Second

// WaitGone waits until a place has changed and returns its Gone error, or nil when ctx ends.
func WaitGone(ctx context.Context, places ...Place) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events, told := watchPlaces(ctx, places)
	every := placePollEvery
	if told {
		every = placeLookEvery
	}
	for {
		for _, p := range places {
			if err := p.Gone(); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		case <-events:
			// Check after the pause, to include everything that happened during it.
			if !loop.Pause(ctx, placeCalm) {
				return nil
			}
		}
	}
}

// dirsAbove lists the ancestors of a path, nearest first.
func dirsAbove(path string) []string {
	var dirs []string
	for d := filepath.Dir(path); ; d = filepath.Dir(d) {
		dirs = append(dirs, d)
		if d == filepath.Dir(d) {
			return dirs
		}
	}
}
