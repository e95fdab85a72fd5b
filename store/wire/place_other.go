//go:build !linux

package wire

import "context"

// watchPlaces reports nothing on this system.
func watchPlaces(context.Context, []Place) (<-chan struct{}, bool) { return nil, false }
