//go:build !linux

package fusefs

import (
	"errors"
	"fmt"
	"runtime"
)

// ErrNoFUSE: the overlay runs on Linux only so far.
var (
	ErrNoFUSE   = errors.New("the overlay is not available on " + runtime.GOOS + " yet (reads, hooks and search work without it)")
	ErrNoHelper = ErrNoFUSE
	ErrBusy     = errors.New("in use")
)

// Server cannot exist here.
type Server struct{}

// Mount fails with ErrNoFUSE.
func Mount(opt Options) (*Server, error) {
	return nil, fmt.Errorf("mount %s: %w", opt.Mountpoint, ErrNoFUSE)
}

// Wait returns at once.
func (*Server) Wait() {}

// Device has no descriptor to give.
func (*Server) Device() int { return -1 }

// Replaceable is never so.
func (*Server) Replaceable() bool { return false }

// Abandon does nothing.
func (*Server) Abandon() {}

// Unmount does nothing.
func (*Server) Unmount() error { return nil }

// SetOutside does nothing.
func (*Server) SetOutside(bool) {}

// EachDirty calls nobody.
func (*Server) EachDirty(func(File)) {}

// Changes knows of nothing.
func (*Server) Changes(string) (next string, paths []string, all bool) { return "", nil, true }

// Stats are empty.
func (*Server) Stats() Stats { return Stats{} }

// Unmount fails with ErrNoFUSE.
func Unmount(mountpoint string) error { return Detach(mountpoint) }

// Detach fails with ErrNoFUSE.
func Detach(mountpoint string) error {
	return fmt.Errorf("unmount %s: %w", mountpoint, ErrNoFUSE)
}
