//go:build !linux

package outside

import (
	"time"

	"cachebro/store/wire"
)

func Settle(wire.Paths, time.Duration, func() error) error { return nil }

// Watched returns false: nothing can be watched here.
func Watched(wire.Paths, string, func() error, func() error) (bool, error) { return false, nil }

type Watch struct{}

func Start(wire.Paths, string, []string) error { return nil }

// Possible is false: watching needs Linux.
func Possible() bool { return false }
