//go:build !linux

package cli

// Foreground assumes that the terminal sends its signals to our process group.
func Foreground() bool { return true }
