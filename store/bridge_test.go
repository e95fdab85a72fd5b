package store

import (
	"context"

	"cachebro/store/content"
)

// What the tests in package store_test, which may use storetest, need of the inside.
var (
	Exported    = exported
	PlainStream = plainStream
	Checked     = checked
	Here        = portable
)

func (s *Store) ClearContents() { s.contents.Forget() }
func (s *Store) ClearCurrent()  { s.current.Clear() }

// Repack packs what is loose.
func (s *Store) Repack(ctx context.Context) error {
	return s.contents.Repack(ctx, false, &content.Report{})
}
