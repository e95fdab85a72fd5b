//go:build !linux

package sourcewatch

import "os"

type Watch struct{}

// Start fails with ErrUnsupported.
func Start(*os.File, func([]Event), func(error)) (*Watch, error) { return nil, ErrUnsupported }

func (*Watch) WatchMount(string) error { return ErrUnsupported }

func (*Watch) WatchWriting(bool) error { return ErrUnsupported }

func (*Watch) Drain() {}

func (*Watch) Close() {}
