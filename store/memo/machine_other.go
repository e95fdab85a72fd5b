//go:build !linux

package memo

// Nothing is replayed on this system, so these functions return nothing.
func machineFacts() string     { return "" }
func kernelSays(string) string { return "" }
