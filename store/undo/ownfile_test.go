package undo

import (
	"testing"

	"cachebro/scripts/testkit/storetest"
	"cachebro/store"
)

// The command doctor writes a test file, the canary, and removes it. The next undo used to undo
// only the canary's versions, although the canary no longer existed, and the redo restored the
// canary.
func TestCanaryIsNobodysAction(t *testing.T) {
	c := newScene(t)
	c.do(c.tr.Write("a", "one\n"))
	c.as("A", "sed", "t1", 10).do(c.tr.Write("a", "two\n"))
	c.as("B", "vim", "", 11).do(c.tr.Write("b", "two\n"))
	c.carry(c.undo(Query{Select: store.Filter{Session: "B"}}))
	canary := store.Path("sub/.cachebro-canary~")
	c.as("", "cachebro", "", 12).do(c.tr.Mkdir("sub", storetest.DirMode), c.tr.Write(canary, "one\n"), c.tr.Write(canary, "two\n"))
	p, err := Planner{Store: c.s}.Revert(canary, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	c.carry(p)
	c.want(canary, "one\n")
	c.do(c.tr.Remove(canary), c.tr.Remove("sub"))
	redo, err := Planner{Store: c.s}.Redo("", false, false)
	if err != nil || len(redo.Steps) != 1 || redo.Steps[0].Path != "b" {
		t.Fatalf("redo: %+v %v", redo, err)
	}
	c.as("A", "sed", "t2", 10).do(c.tr.Write("a", "three\n"))
	c.as("", "cachebro", "", 13).do(c.tr.Write(".cachebro-canary~", "one\n"), c.tr.Remove(".cachebro-canary~"))
	c.carry(c.undo(Query{Last: true}))
	c.want("a", "two\n")
}
