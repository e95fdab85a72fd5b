package wire

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Place is a path that a process depends on, and the question whether it still is what
// it was.
//
// A process whose state directory, socket or project is gone or has been replaced
// serves nobody any more and must end instead of trying for ever. The kernel reports
// removals and renames (inotify), so an idle process does not wake up; a slow check
// catches what the kernel does not report, such as a file system mounted over a directory.
type Place struct {
	Path string
	// Gone says what has happened to it; nil: nothing.
	Gone func() error
}

// SamePlace is the place of the file that is at path now, a symbolic link not followed.
func SamePlace(path string) (Place, error) {
	was, err := os.Lstat(path)
	if err != nil {
		return Place{}, err
	}
	return Place{path, func() error { return FileDiffers(path, was) }}, nil
}

// FileDiffers says whether path has gone or is another file than was. Nothing can
// be said while it cannot be looked at for another reason.
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
	// placePollEvery is the pause between two looks where the kernel tells nothing.
	placePollEvery = time.Second
	// placeCalm is the pause between an event and the look: a busy directory above a
	// place must not keep us busy.
	placeCalm = 100 * time.Millisecond
)

// placeLookEvery is the pause between two looks where the kernel tells of changes.
var placeLookEvery = 15 * time.Second

// WaitGone returns what has happened to one of the places, or nil when ctx ends.
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
			// The look comes after the pause, so that it sees all that came in it.
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(placeCalm):
			}
		}
	}
}

// dirsAbove lists the directories above a path, nearest first.
func dirsAbove(path string) []string {
	var dirs []string
	for d := filepath.Dir(path); ; d = filepath.Dir(d) {
		dirs = append(dirs, d)
		if d == filepath.Dir(d) {
			return dirs
		}
	}
}
