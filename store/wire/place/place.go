// Package place notices when the files that a process depends on are gone or have
// been replaced: its state directory, its socket, its project. Such a process
// serves nobody any more and must end instead of trying for ever.
//
// The kernel reports removals and renames (inotify), so an idle process does not
// wake up; a slow check catches what the kernel does not report, such as a file
// system mounted over a directory.
package place

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// A Place is a path and the question whether it still is what it was.
type Place struct {
	Path string
	// Gone says what has happened to it; nil: nothing.
	Gone func() error
}

// Same is the place of the file that is at path now, a symbolic link not followed.
func Same(path string) (Place, error) {
	was, err := os.Lstat(path)
	if err != nil {
		return Place{}, err
	}
	return Place{path, func() error { return Differs(path, was) }}, nil
}

// Differs says whether path has gone or is another file than was. Nothing can
// be said while it cannot be looked at for another reason.
func Differs(path string, was os.FileInfo) error {
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
	// pollEvery is the pause between two looks where the kernel tells nothing.
	pollEvery = time.Second
	// calm is the pause between an event and the look: a busy directory above a
	// place must not keep us busy.
	calm = 100 * time.Millisecond
)

// lookEvery is the pause between two looks where the kernel tells of changes.
var lookEvery = 15 * time.Second

// Wait returns what has happened to one of the places, or nil when ctx ends.
func Wait(ctx context.Context, places ...Place) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events, told := watch(ctx, places)
	every := pollEvery
	if told {
		every = lookEvery
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
			case <-time.After(calm):
			}
		}
	}
}

// above lists the directories above a path, nearest first.
func above(path string) []string {
	var dirs []string
	for d := filepath.Dir(path); ; d = filepath.Dir(d) {
		dirs = append(dirs, d)
		if d == filepath.Dir(d) {
			return dirs
		}
	}
}
