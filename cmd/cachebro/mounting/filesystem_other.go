//go:build !linux

package mounting

// FileSystem returns "unknown", because it is implemented only for Linux.
func FileSystem(string) string { return "unknown" }
