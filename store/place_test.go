package store

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"

	"cachebro/store/content"
)

// TestPlacesAreInOrder: the place of each packed content is known, and the contents of one frame
// follow each other in order.
func TestPlacesAreInOrder(t *testing.T) {
	s := fresh(t)
	var cs []Change
	for i := range 300 {
		cs = append(cs, file(OpCreate, Path(fmt.Sprintf("f%d", i)), fmt.Sprintf("the text of %d\n", i)))
	}
	apply(t, s, cs...)
	if err := s.contents.Repack(context.Background(), false, &content.Report{}); err != nil {
		t.Fatal(err)
	}
	apply(t, s, file(OpCreate, "loose", "the last one\n"))
	never := Hash{1}
	hs := []Hash{never}
	if err := s.Live("", func(v Version) error { hs = append(hs, v.Blob); return nil }); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(hs, func(a, b Hash) int { return bytes.Compare(a[:], b[:]) })
	var places []content.Place
	s.Contents().Places(hs, func(at content.Place, kept bool) {
		if kept != (at.Hash != never) {
			t.Errorf("%x: kept %v", at.Hash, kept)
		}
		if kept {
			places = append(places, at)
		}
	})
	slices.SortFunc(places, content.ComparePlaces)
	if len(places) != 301 || places[0].Frame != 0 || places[1].Frame == 0 {
		t.Fatalf("%d places, the first of them %+v", len(places), places[:min(2, len(places))])
	}
	for i, at := range places[2:] {
		if before := places[i+1]; at.Frame < before.Frame || at.Frame == before.Frame && at.At <= before.At {
			t.Fatalf("%+v after %+v", at, before)
		}
	}
}
