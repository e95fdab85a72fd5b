package undo

import (
	"strings"
	"testing"

	"cachebro/store"
)

// TestUndoOfWhatCameBackInAMerge undoes a change and redoes it after another line was changed, so
// that the redo merges. An undo of the change must then do nothing and list that redo as the reason.
func TestUndoOfWhatCameBackInAMerge(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "vim", "", 5).do(tr.Write("a", "one\ntwo\nthree\nfour\n"))
	c.as("A", "sed", "t1", 10).do(tr.Write("a", "ONE\ntwo\nthree\nfour\n"))
	p, err := Planner{Store: c.s}.Undo(Query{Select: store.Filter{ToolCall: "t1"}})
	if err != nil {
		t.Fatal(err)
	}
	c.carry(p)
	c.as("", "vim", "", 5).do(tr.Write("a", "one\ntwo\nthree\nFOUR\n"))
	p, err = Planner{Store: c.s}.Redo("", true, false)
	if err != nil {
		t.Fatal(err)
	}
	c.carry(p)
	c.want("a", "ONE\ntwo\nthree\nFOUR\n")
	p, err = Planner{Store: c.s}.Undo(Query{Select: store.Filter{ToolCall: "t1"}})
	if err != nil || len(p.Steps) > 0 || len(p.Conflicts) != 1 || !strings.Contains(p.Conflicts[0].Why, "this change is part of a merge that cachebro redo --plan "+p.ID) {
		t.Errorf("%+v, %v", p, err)
	}
}
