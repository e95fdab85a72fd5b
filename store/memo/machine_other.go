//go:build !linux

package memo

// Nothing is replayed on this system.
func machineFacts() string     { return "" }
func kernelSays(string) string { return "" }
