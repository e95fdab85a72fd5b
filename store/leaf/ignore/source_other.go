//go:build !linux

package ignore

import "os"

func openDir(*os.Root) *os.File { return nil }

// beneath is not available on this system.
func (s *source) beneath(string, bool) (*os.File, bool) { return nil, false }

// ownFDs is the directory that lists this process's descriptors.
const ownFDs = "/dev/fd"
