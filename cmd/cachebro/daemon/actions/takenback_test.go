package actions

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"cachebro/scripts/testkit/storetest"
	"cachebro/store"
	"cachebro/store/diff"
	"cachebro/store/leaf/cache"
	"cachebro/store/undo"
	"cachebro/store/wire"
)

// carryOut journals a plan and carries out its steps. If fails is given, the step for that path
// fails.
func (w *world) carryOut(p *undo.Draft, err error, fails ...store.Path) string {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.st.Journal.Begin(context.Background(), &p.Plan, p.Made); err != nil {
		w.t.Fatal(err)
	}
	w.plan = p.ID
	var failed []store.Conflict
	for _, step := range p.Steps {
		if len(fails) > 0 && step.Path == fails[0] {
			failed = append(failed, store.Conflict{Path: step.Path, Why: "no room"})
			continue
		}
		switch step.Do {
		case store.DoWrite:
			data, err := w.st.Content(step.Blob)
			if err != nil && step.Size > 0 {
				w.t.Fatal(err)
			}
			w.do(w.tree.Write(step.Path, string(data)))
		case store.DoDelete:
			own := store.Path(fmt.Sprintf(".cachebro-%s-%d~", p.ID, step.N))
			w.do(w.tree.Rename(step.Path, own), w.tree.Remove(own))
		case store.DoRename:
			w.do(w.tree.Rename(step.Path, step.To))
		case store.DoChmod:
			w.do(w.tree.Chmod(step.Path, step.Mode))
		default:
			w.t.Fatalf("a step that %ss", step.Do)
		}
		if err := w.st.Journal.Done(p.ID, step.N); err != nil {
			w.t.Fatal(err)
		}
	}
	w.plan = ""
	if err := w.st.Journal.Finish(p.ID, failed); err != nil {
		w.t.Fatal(err)
	}
	return p.ID
}

// last returns the newest action with the given command in the log.
func (w *world) last(command string) wire.Action {
	w.t.Helper()
	for _, a := range w.page(store.Filter{}, wire.ActionsQuery{}).Actions {
		if a.Command == command {
			return a
		}
	}
	w.t.Fatalf("the log has no %q", command)
	return wire.Action{}
}

// A query reads each plan once, also if its marks do not fit into the cache of the service. After an
// undo of 100,000 files, log used to read the whole plan several times for each file, for minutes.
func TestPlanIsReadOncePerQuery(t *testing.T) {
	w := newWorld(t)
	w.process(101, 100, 101, "sed", "sed", "-i", "x")
	w.start("a")
	w.as(101, "sed").do(w.tree.Write("a", "one\n"))
	p := undo.Planner{Store: w.st}
	d, err := p.Undo(undo.Query{Select: store.Filter{After: w.st.Seq() - 1, Before: w.st.Seq() + 1}})
	id := w.carryOut(d, err)
	s := w.service()
	s.marks = cache.New[string](0, sizeOfMarks)
	if err := w.st.View(func(v *store.View) error {
		query, err := s.newTakenBack(v)
		if err != nil {
			return err
		}
		first, err := query.marksOf(id)
		if err != nil {
			return err
		}
		again, err := query.marksOf(id)
		if len(first) == 0 || reflect.ValueOf(first).Pointer() != reflect.ValueOf(again).Pointer() {
			t.Errorf("marks of %d paths were read again", len(first))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// TestTakenBack follows an action through undo and redo, as a whole and by files and hunks. The
// log says whether it is in effect, and what reversed it.
func TestTakenBack(t *testing.T) {
	w := newWorld(t)
	w.process(101, 100, 101, "sed", "sed", "-i", "x")
	w.process(102, 100, 102, "vim", "vim", "a")
	long := "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16\n"
	w.start("a", "b")
	w.as(102, "vim").do(w.tree.Write("a", long))
	first := w.st.Seq()
	w.as(101, "sed").do(w.tree.Write("a", "one\n"+long[2:]+"end\n"), w.tree.Write("b", "one\n2\n"), w.tree.Write("c", "new\n"))
	want := func(when string, a wire.Action, back bool, by ...string) {
		t.Helper()
		var got []string
		for _, x := range a.TakenBack {
			got = append(got, x.Plan)
		}
		if a.Back != back || len(got) != len(by) {
			t.Fatalf("%s: back %v by %q, want %v by %q", when, a.Back, got, back, by)
		}
		for i := range by {
			shown := slices.ContainsFunc(w.page(store.Filter{}, wire.ActionsQuery{}).Actions, func(o wire.Action) bool { return o.Last == a.TakenBack[i].Seq })
			if got[i] != by[i] || !shown {
				t.Errorf("%s: taken back by %+v, want %q", when, a.TakenBack[i], by[i])
			}
		}
	}
	sed := w.last("sed -i x")
	want("at first", sed, false)
	p := undo.Planner{Store: w.st}
	of := func(paths ...store.Path) undo.Query {
		return undo.Query{Select: store.Filter{Before: sed.Last + 1, After: sed.First - 1}, In: undo.Names{Paths: paths}}
	}

	d, err := p.Undo(of("b"))
	file := w.carryOut(d, err)
	a := w.last("sed -i x")
	want("after one file", a, false, file)
	for _, f := range a.Files {
		if back := len(f.TakenBack) == 1 && f.TakenBack[0].Whole(); back != (string(f.Path) == "b") {
			t.Errorf("%s: %+v", f.Path, f.TakenBack)
		}
	}
	if a.TakenBack[0].Files != 1 {
		t.Errorf("%+v", a.TakenBack)
	}

	d, err = p.Edits([]undo.FileEdits{{Before: first, After: sed.First, Which: []int{1}}})
	hunk := w.carryOut(d, err)
	want("after a hunk", w.last("sed -i x"), false, hunk, file)
	marks, err := w.marksFor("a", first, sed.First)
	if err != nil || len(marks) != 1 || len(marks[0].Edits) != 1 || marks[0].Edits[0] != 1 || marks[0].Whole() {
		t.Errorf("%+v, %v", marks, err)
	}

	d, err = p.Redo(hunk, false, false)
	w.carryOut(d, err)
	want("after the hunk was brought back", w.last("sed -i x"), false, file)

	d, err = p.Undo(of())
	all := w.carryOut(d, err)
	want("after the rest", w.last("sed -i x"), true, all, file)
	d, err = p.Redo(all, false, false)
	redo := w.carryOut(d, err)
	want("after the redo", w.last("sed -i x"), false, file)
	undone := false
	for _, a := range w.page(store.Filter{}, wire.ActionsQuery{}).Actions {
		if a.Plan == all {
			undone = true
			want("the undo itself", a, true, redo)
		}
	}
	if !undone {
		t.Error("the log has no undo")
	}

	// A later change by somebody else does not redo what was undone, and is not itself shown as
	// undone.
	w.as(102, "vim").do(w.tree.Write("b", "theirs\n"))
	want("after a change on top", w.last("sed -i x"), false, file)
	want("the change on top", w.last("vim a"), false)

	// The revert returns the whole file to its state before all these changes.
	d, err = p.Revert("a", 0, 1)
	revert := w.carryOut(d, err)
	want("after a revert", w.last("sed -i x"), false, revert, file)

	// A failed step undid nothing.
	storetest.Wait(time.Hour)
	w.as(101, "sed").do(w.tree.Write("d", "x\n"), w.tree.Write("e", "x\n"))
	newest := w.st.Seq()
	d, err = p.Undo(undo.Query{Select: store.Filter{After: newest - 2}})
	part := w.carryOut(d, err, "d")
	a = w.page(store.Filter{}, wire.ActionsQuery{}).Actions[1]
	want("where a step failed", a, false, part)
}

// An action is named as reversed by the plan that took its change out, not by a later one that went
// back further; and an undo is not reversed by an undo of what was before.
func TestTakenBackOneAfterAnother(t *testing.T) {
	w := newWorld(t)
	w.process(101, 100, 101, "sed", "sed", "-i", "x")
	w.process(102, 100, 102, "vim", "vim", "a")
	w.start("a")
	w.as(101, "sed").do(w.tree.Write("a", "1\n"))
	first := w.st.Seq()
	w.as(102, "vim").do(w.tree.Write("a", "1\n2\n"))
	second := w.st.Seq()
	p := undo.Planner{Store: w.st}
	undone := func(seq uint64) string {
		d, err := p.Undo(undo.Query{Select: store.Filter{Before: seq + 1, After: seq - 1}})
		return w.carryOut(d, err)
	}
	redone := func(id string) string {
		d, err := p.Redo(id, false, false)
		return w.carryOut(d, err)
	}
	want := func(when string, by map[string]string) {
		t.Helper()
		for _, a := range w.page(store.Filter{}, wire.ActionsQuery{}).Actions {
			name := a.Plan
			if name == "" {
				name = a.Command
			}
			got := ""
			for _, b := range a.TakenBack {
				got += b.Plan
			}
			if got != by[name] || a.Back != (got != "") {
				t.Errorf("%s: %s is reversed by %q (%v), want %q", when, name, got, a.Back, by[name])
			}
		}
	}
	u1 := undone(second)
	want("after one undo", map[string]string{"vim a": u1})
	r1 := redone(u1)
	want("after its redo", map[string]string{u1: r1})
	u2 := undone(second)
	want("after another undo", map[string]string{"vim a": u2, r1: u2})
	u3 := undone(first)
	want("after both", map[string]string{"vim a": u2, r1: u2, "sed -i x": u3})
	r3 := redone(u3)
	want("after a redo", map[string]string{"vim a": u2, r1: u2, u3: r3})
	r2 := redone(u2)
	want("after both redos", map[string]string{u1: r2, u2: r2, u3: r3})
	d, err := p.Revert("a", 0, first-1)
	back := w.carryOut(d, err)
	want("after a revert of everything", map[string]string{"vim a": back, r1: back, r2: back, r3: back, "sed -i x": back})
	again := redone(back)
	want("after its redo", map[string]string{u1: again, u2: again, u3: again, back: again})
}

// An undo of a file's content does not reverse an earlier change of its mode.
func TestTakenBackOfAnotherCell(t *testing.T) {
	w := newWorld(t)
	w.process(101, 100, 101, "chmod", "chmod", "600", "a")
	w.process(102, 100, 102, "vim", "vim", "a")
	w.start("a")
	w.as(101, "chmod").do(w.tree.Chmod("a", 0o600))
	w.as(102, "vim").do(w.tree.Write("a", "more\n"))
	seq := w.st.Seq()
	d, err := undo.Planner{Store: w.st}.Undo(undo.Query{Select: store.Filter{Before: seq + 1, After: seq - 1}})
	id := w.carryOut(d, err)
	if a := w.last("vim a"); !a.Back || len(a.TakenBack) != 1 || a.TakenBack[0].Plan != id {
		t.Errorf("%+v", a)
	}
	if a := w.last("chmod 600 a"); len(a.TakenBack) > 0 {
		t.Errorf("the change of the mode counts as reversed: %+v", a.TakenBack)
	}
}

// A change of a file with several names is a change of each name. An undo of it used to count only
// for one name, so the action seemed to be reversed in part.
func TestTakenBackOfLinkedFile(t *testing.T) {
	w := newWorld(t)
	w.process(101, 100, 101, "chmod", "chmod", "600", "a")
	w.process(102, 100, 102, "vim", "vim", "b")
	w.start("a")
	w.do(w.tree.Link("a", "b"), w.tree.Link("a", "d"))
	change := map[string]func(){
		"chmod 600 a": func() { w.as(101, "chmod").do(w.tree.Chmod("a", 0o600)) },
		"vim b":       func() { w.as(102, "vim").do(w.tree.Write("b", "more\n")) },
	}
	for _, command := range []string{"chmod 600 a", "vim b"} {
		change[command]()
		first := w.last(command)
		want := func(when string, back bool) {
			t.Helper()
			a := w.last(command)
			if a.Back != back || len(a.Files) != 3 || len(a.TakenBack) > 1 || (len(a.TakenBack) == 1) != back {
				t.Errorf("%s, %s: %+v", command, when, a)
			}
		}
		p := undo.Planner{Store: w.st}
		of := undo.Query{Select: store.Filter{Before: first.Last + 1, After: first.First - 1}}
		d, err := p.Undo(of)
		w.carryOut(d, err, d.Steps[0].Path)
		want("after an undo that failed", false)
		d, err = p.Undo(of)
		id := w.carryOut(d, err)
		want("after the undo", true)
		d, err = p.Redo(id, false, false)
		w.carryOut(d, err)
		want("after the redo", false)
		d, err = p.Undo(of)
		w.carryOut(d, err)
		want("after the second undo", true)
	}
}

// An action moved a file away and made another one under its name. The undo removed that one and
// moved the file back. It used to count as an undo of the move only, because the name had a file
// again.
func TestTakenBackOfNameMadeAgain(t *testing.T) {
	w := newWorld(t)
	w.process(101, 100, 101, "sh", "sh", "x")
	w.start("a")
	w.as(101, "sh").do(w.tree.Rename("a", "old"), w.tree.Write("a", "new\n"))
	first := w.last("sh x")
	p := undo.Planner{Store: w.st}
	d, err := p.Undo(undo.Query{Select: store.Filter{Before: first.Last + 1, After: first.First - 1}})
	id := w.carryOut(d, err)
	if a := w.last("sh x"); !a.Back || len(a.Files) != 2 || len(a.TakenBack) != 1 {
		t.Errorf("after the undo: %+v", a)
	}
	d, err = p.Redo(id, false, false)
	w.carryOut(d, err)
	if a := w.last("sh x"); a.Back || len(a.TakenBack) > 0 {
		t.Errorf("after the redo: %+v", a)
	}
}

// An undo that merges removes the lines of its action from a file that somebody else has changed
// since.
func TestTakenBackByMerge(t *testing.T) {
	w := newWorld(t)
	w.process(101, 100, 101, "sed", "sed", "-i", "x")
	w.process(102, 100, 102, "vim", "vim", "a")
	long := "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16\n"
	w.start("a")
	w.as(102, "vim").do(w.tree.Write("a", long))
	w.as(101, "sed").do(w.tree.Write("a", "one\n"+long[2:]))
	seq := w.st.Seq()
	w.as(102, "vim").do(w.tree.Write("a", "one\n"+long[2:]+"end\n"))
	d, err := undo.Planner{Store: w.st}.Undo(undo.Query{Select: store.Filter{Before: seq + 1, After: seq - 1}, Merge: true})
	id := w.carryOut(d, err)
	if data, err := w.st.Content(d.Steps[0].Blob); err != nil || len(diff.Compare([]byte(long+"end\n"), data).Edits) > 0 {
		t.Fatalf("%q, %v", data, err)
	}
	a := w.last("sed -i x")
	if !a.Back || len(a.TakenBack) != 1 || a.TakenBack[0].Plan != id {
		t.Errorf("%+v", a)
	}
	for _, x := range w.page(store.Filter{}, wire.ActionsQuery{}).Actions {
		if x.Command == "vim a" && len(x.TakenBack) > 0 {
			t.Errorf("a part that was left alone counts as reversed: %+v", x)
		}
	}
}

func (w *world) marksFor(p store.Path, before, seq uint64) ([]wire.TakenBack, error) {
	a, _, err := w.service().takenBackOf(context.Background(), wire.TakenBackQuery{Path: []byte(p), Before: before, Seq: seq})
	return a.By, err
}
