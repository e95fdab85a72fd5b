//go:build !linux

package capture

import (
	"iter"

	"cachebro/fusefs"
)

// typed does nothing on this system. Instead, a pause of linePause ends a line.
type typed struct{}

func (typed) close()                       {}
func (typed) watch(*fusefs.Process) int    { return 0 }
func (typed) readTerminals() iter.Seq[int] { return func(func(int) bool) {} }
