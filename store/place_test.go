package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"cachebro/store/content"
)

// TestPlanReadsInPlaceOrder: of packed contents a plan knows the places, those of
// a frame lie together in their order, and what it read is what it will write.
func TestPlanReadsInPlaceOrder(t *testing.T) {
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
	for i := range cs {
		c := op(OpUnlink, cs[i].Path, "", fileMode)
		c.Actor.Session = "s"
		apply(t, s, c)
	}
	c := op(OpUnlink, "loose", "", fileMode)
	c.Actor.Session = "s"
	apply(t, s, c)
	p, err := s.PlanUndo(UndoQuery{Select: Filter{Session: "s"}})
	if err != nil {
		t.Fatal(err)
	}
	places := slices.SortedFunc(maps.Values(p.kept), comparePlaces)
	if len(places) != 301 || places[0].Frame != 0 || places[1].Frame == 0 {
		t.Fatalf("%d places, the first of them %+v", len(places), places[:min(2, len(places))])
	}
	for i, at := range places[2:] {
		if before := places[i+1]; at.Frame < before.Frame || at.Frame == before.Frame && at.At <= before.At {
			t.Fatalf("%+v after %+v", at, before)
		}
	}
	read := p.Read()
	if len(read) != 301 || len(p.Read()) != 0 {
		t.Fatalf("%d contents were read", len(read))
	}
	for _, st := range p.Steps {
		if want, err := s.Content(st.Blob); err != nil || string(read[st.Blob]) != string(want) {
			t.Fatalf("%s: read %q, kept is %q, %v", st.Path, read[st.Blob], want, err)
		}
	}
}
