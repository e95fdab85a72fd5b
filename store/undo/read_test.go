package undo

import (
	"fmt"
	"testing"

	"cachebro/scripts/testkit/storetest"
	"cachebro/store"
)

// TestDraftReadsWhatItWrites: a draft returns the contents that were read to count their lines.
// These are the contents that its steps write.
func TestDraftReadsWhatItWrites(t *testing.T) {
	s := storetest.Fresh(t)
	var cs []store.Change
	for i := range 301 {
		cs = append(cs, storetest.Closed(store.OpCreate, store.Path(fmt.Sprintf("f%d", i)), fmt.Sprintf("the text of %d\n", i)))
	}
	storetest.Apply(t, s, cs...)
	for i := range cs {
		c := storetest.Told(store.OpUnlink, cs[i].Path, "", storetest.FileMode)
		c.Actor.Session = "s"
		storetest.Apply(t, s, c)
	}
	d, err := Planner{Store: s}.Undo(Query{Select: store.Filter{Session: "s"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Steps) != 301 || len(d.Read) != 301 {
		t.Fatalf("%d steps, %d contents were read", len(d.Steps), len(d.Read))
	}
	for _, st := range d.Steps {
		if want, err := s.Content(st.Blob); err != nil || string(d.Read[st.Blob]) != string(want) {
			t.Fatalf("%s: read %q, kept is %q, %v", st.Path, d.Read[st.Blob], want, err)
		}
	}
}

// TestLinesOfTheFirstStepsAreCounted: a plan of thousands of files contains the number of lines
// that its first steps change, and the information that other lines were not counted.
func TestLinesOfTheFirstStepsAreCounted(t *testing.T) {
	for _, n := range []int{counted, counted + 100} {
		s := storetest.Fresh(t)
		var cs, gone []store.Change
		for i := range n {
			cs = append(cs, storetest.Closed(store.OpCreate, store.Path(fmt.Sprintf("f%04d", i)), fmt.Sprintf("one\ntwo\nthe text of %d\n", i)))
			c := storetest.Told(store.OpUnlink, cs[i].Path, "", storetest.FileMode)
			c.Actor.Session = "s"
			gone = append(gone, c)
		}
		storetest.Apply(t, s, cs...)
		storetest.Apply(t, s, gone...)
		d, err := Planner{Store: s}.Undo(Query{Select: store.Filter{Session: "s"}})
		if err != nil {
			t.Fatal(err)
		}
		if len(d.Steps) != n || d.Partly != (n > counted) {
			t.Fatalf("%d steps of %d, counted in part: %v", len(d.Steps), n, d.Partly)
		}
		for i, st := range d.Steps {
			if want := 3; i < counted && st.Added != want || i >= counted && st.Added != 0 {
				t.Fatalf("of %d steps, step %d adds %d lines", n, i+1, st.Added)
			}
		}
	}
}
