//go:build !linux

package apply

// Settle does nothing, because there is no mount to wait for.
func Settle(string) {}
