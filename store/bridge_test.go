package store

import (
	"context"

	"cachebro/store/content"
)

// Access to internals for the tests in package store_test, which may use storetest.
var Checked = checked

func (s *Store) ClearContents() { s.contents.Forget() }
func (s *Store) ClearCurrent()  { s.current.Clear() }

// Repack packs all loose contents.
func (s *Store) Repack(ctx context.Context) error {
	return s.contents.Repack(ctx, false, &content.Report{})
}
