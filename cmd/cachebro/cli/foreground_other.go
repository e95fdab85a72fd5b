//go:build !linux

package cli

// Foreground reports whether the terminal sends its signals to this process group. Here that is
// assumed.
func Foreground() bool { return true }
