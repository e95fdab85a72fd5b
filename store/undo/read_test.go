package undo

import (
	"fmt"
	"testing"

	"cachebro/store"
	"cachebro/store/storetest"
)

// TestDraftReadsWhatItWrites: a draft hands over the contents that were read to count
// their lines, and they are those that its steps write.
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
