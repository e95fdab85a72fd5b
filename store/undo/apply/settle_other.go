//go:build !linux

package apply

// Settle does nothing, because this system has no mount.
func Settle(string) {}
