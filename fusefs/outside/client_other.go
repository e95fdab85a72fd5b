//go:build !linux

package outside

import (
	"time"

	"cachebro/store/wire"
)

// Settle has nobody to ask.
func Settle(wire.Paths, time.Duration, func() error) error { return nil }

// Watched cannot watch.
func Watched(wire.Paths, string, func() error, func() error) (bool, error) { return false, nil }

// Watch sees nothing.
type Watch struct{}

// Start has nothing to start.
func Start(wire.Paths, string, []string) error { return nil }

// Possible is false: it needs Linux.
func Possible() bool { return false }
