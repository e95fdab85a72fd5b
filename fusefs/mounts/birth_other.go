//go:build !linux

package mounts

// birth returns 0, because the time is needed only on systems on which projects can be mounted.
func birth(string) int64 { return 0 }
