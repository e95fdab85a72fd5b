//go:build !linux

package spool

// notifier: the Reader polls here.
type notifier struct{}

func newNotifier(func()) *notifier     { return &notifier{} }
func (*notifier) arm(path string) bool { return false }
func (*notifier) close()               {}
