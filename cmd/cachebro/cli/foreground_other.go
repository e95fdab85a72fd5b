//go:build !linux

package cli

// Foreground assumes that the terminal sends its signals to this process group.
func Foreground() bool { return true }
