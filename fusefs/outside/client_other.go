//go:build !linux

package outside

import (
	"time"

	"cachebro/store/wire"
)

// Settle does nothing here.
func Settle(wire.Paths, time.Duration, func() error) error { return nil }

// Watched reports false: nothing can be watched here.
func Watched(wire.Paths, string, func() error, func() error) (bool, error) { return false, nil }

// Watch is empty here.
type Watch struct{}

// Start does nothing here.
func Start(wire.Paths, string, []string) error { return nil }

// Possible is false: watching needs Linux.
func Possible() bool { return false }
