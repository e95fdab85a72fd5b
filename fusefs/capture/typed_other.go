//go:build !linux

package capture

import (
	"iter"

	"cachebro/fusefs"
)

// typed notices nothing on this system: lines end by linePause.
type typed struct{}

func (typed) close()                       {}
func (typed) watch(*fusefs.Process) int    { return 0 }
func (typed) readTerminals() iter.Seq[int] { return func(func(int) bool) {} }
