package store

import (
	"context"

	"cachebro/store/content"
)

// What the tests in package store_test, which may use storetest, need of the inside.
var Checked = checked

func (s *Store) ClearContents() { s.contents.Forget() }
func (s *Store) ClearCurrent()  { s.current.Clear() }

// Repack packs what is loose.
func (s *Store) Repack(ctx context.Context) error {
	return s.contents.Repack(ctx, false, &content.Report{})
}
