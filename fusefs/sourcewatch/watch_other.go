//go:build !linux

package sourcewatch

import "os"

// Watch watches nothing here.
type Watch struct{}

// Start fails with ErrUnsupported.
func Start(*os.File, func([]Event), func(error)) (*Watch, error) { return nil, ErrUnsupported }

// WatchMount fails.
func (*Watch) WatchMount(string) error { return ErrUnsupported }

// WatchWriting does nothing.
func (*Watch) WatchWriting(bool) error { return ErrUnsupported }

// Drain does nothing.
func (*Watch) Drain() {}

// Close does nothing.
func (*Watch) Close() {}
