//go:build !linux

package ignore

import "os"

func openDir(*os.Root) *os.File { return nil }

// beneath is what Linux has.
func (s *source) beneath(string, bool) (*os.File, bool) { return nil, false }

// ownFDs is where our own descriptors have names.
const ownFDs = "/dev/fd"
