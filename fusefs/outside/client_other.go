//go:build !linux

package outside

import (
	"time"

	"cachebro/store/wire"
)

func Settle(wire.Paths, time.Duration, func() error) error { return nil }

// Watched returns false, because this system cannot report system calls.
func Watched(wire.Paths, string, func() error, func() error) (bool, error) { return false, nil }

type Watch struct{}

func Start(wire.Paths, string, []string) error { return nil }

// Possible returns false, because watching needs Linux.
func Possible() bool { return false }
