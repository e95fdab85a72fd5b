package store

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"cachebro/store/content"
)

// TestPlacesAreInOrder: the places of packed contents are known, and those of one frame are next
// to each other and in order.
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
	if _, kept := s.Contents().Place(Hash{1}); kept {
		t.Error("a content that never was is kept")
	}
	var places []content.Place
	err := s.Live("", func(v Version) error {
		at, kept := s.Contents().Place(v.Blob)
		if !kept {
			t.Errorf("the content of %s is not kept", v.Path)
		}
		places = append(places, at)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
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
