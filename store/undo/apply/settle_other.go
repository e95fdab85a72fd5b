//go:build !linux

package apply

// Settle does nothing: there is no mount to wait for.
func Settle(string) {}
