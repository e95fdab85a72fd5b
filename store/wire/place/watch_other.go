//go:build !linux

package place

import "context"

// watch: nothing is told here.
func watch(context.Context, []Place) (<-chan struct{}, bool) { return nil, false }
