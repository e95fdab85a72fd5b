//go:build !linux

package cli

// Foreground: the terminal sends its signals to our process group.
func Foreground() bool { return true }
