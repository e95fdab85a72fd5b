//go:build !linux

package capture

import (
	"iter"

	"cachebro/fusefs"
)

// typed notices nothing here: a pause must do.
type typed struct{}

func (typed) close()                    {}
func (typed) watch(*fusefs.Process) int { return 0 }
func (typed) since() iter.Seq[int]      { return func(func(int) bool) {} }
