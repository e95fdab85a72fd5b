package store

import "testing"

// doctor writes a canary and takes it back. undo after that once took back the
// canary's versions, of which nothing was left, and redo brought the canary.
func TestCanaryIsNobodysAction(t *testing.T) {
	c := newScene(t)
	c.do(c.tr.write("a", "one\n"))
	c.as("A", "sed", "t1", 10).do(c.tr.write("a", "two\n"))
	c.as("B", "vim", "", 11).do(c.tr.write("b", "two\n"))
	c.carry(c.undo(UndoQuery{Select: Filter{Session: "B"}}))
	canary := Path("sub/.cachebro-canary~")
	c.as("", "cachebro", "", 12).do(c.tr.mkdir("sub", dirMode), c.tr.write(canary, "one\n"), c.tr.write(canary, "two\n"))
	p, err := c.s.PlanRevert(canary, 1, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.carry(p)
	c.want(canary, "one\n")
	c.do(c.tr.remove(canary), c.tr.remove("sub"))
	redo, err := c.s.PlanRedo("", false, nil)
	if err != nil || len(redo.Steps) != 1 || redo.Steps[0].Path != "b" {
		t.Fatalf("redo: %+v %v", redo, err)
	}
	c.as("A", "sed", "t2", 10).do(c.tr.write("a", "three\n"))
	c.as("", "cachebro", "", 13).do(c.tr.write(".cachebro-canary~", "one\n"), c.tr.remove(".cachebro-canary~"))
	c.carry(c.undo(UndoQuery{Last: true}))
	c.want("a", "two\n")
}
