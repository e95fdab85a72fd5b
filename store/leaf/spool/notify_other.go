//go:build !linux

package spool

// notifier does nothing on this system, so the Reader polls.
type notifier struct{}

func newNotifier(func()) *notifier     { return &notifier{} }
func (*notifier) arm(path string) bool { return false }
func (*notifier) close()               {}
