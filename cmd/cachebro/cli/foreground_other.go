//go:build !linux

package cli

// Foreground reports whether the terminal sends its signals to this process group. On this system
// it assumes so.
func Foreground() bool { return true }
