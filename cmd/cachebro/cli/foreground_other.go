//go:build !linux

package cli

// Foreground reports whether the terminal sends its signals to this process group. On this system
// that is not checked but assumed.
func Foreground() bool { return true }
