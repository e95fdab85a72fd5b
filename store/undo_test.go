package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// scene is a store with a tree in step.
type scene struct {
	*testing.T
	s  *Store
	tr *tree
}

func newScene(t *testing.T) *scene { return &scene{t, fresh(t), newTree()} }

func (c *scene) as(session, comm, tool string, pid uint32) *scene {
	c.tr.actor = Actor{PID: pid, Start: uint64(pid), Comm: comm, Session: SessionID(session), ToolCall: tool}
	return c
}

func (c *scene) do(cs ...Change) *scene {
	c.Helper()
	apply(c.T, c.s, cs...)
	return c
}

func (c *scene) carry(p *Plan) {
	c.Helper()
	if err := c.s.BeginPlan(context.Background(), p); err != nil {
		c.Fatal(err)
	}
	was := c.tr.actor
	c.tr.actor = Actor{PID: 99, Comm: "cachebro"}
	cs, err := c.tr.perform(c.s, p)
	if err != nil {
		c.Fatalf("%v\n%+v", err, p.Steps)
	}
	apply(c.T, c.s, cs...)
	c.tr.actor = was
	ns := make([]int, len(p.Steps))
	for i := range ns {
		ns[i] = i + 1
	}
	if err := errors.Join(c.s.StepsDone(p.ID, ns...), c.s.FinishPlan(p.ID, nil)); err != nil {
		c.Fatal(err)
	}
}

func (c *scene) undo(q UndoQuery) *Plan {
	c.Helper()
	p, err := c.s.PlanUndo(q)
	if err != nil {
		c.Fatal(err)
	}
	return p
}

func (c *scene) want(p Path, data string) {
	c.Helper()
	n := c.tr.files[p]
	if n == nil || n.data != data {
		c.Fatalf("%q is %+v, want %q", p, n, data)
	}
}

// The story that people complain about: an agent's shell edits, deletes and
// moves things, also ones that git does not know.
func TestUndoSession(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "vim", "", 5).do(
		tr.mkdir("src", dirMode), tr.mkdir("src/old", dirMode), tr.write("src/a.go", "a\n"), tr.write("src/b.go", "b\n"),
		tr.write("src/old/x", "x\n"), tr.mkdir("data", dirMode), tr.write("data/db", "db\x00\n"), tr.write("run.sh", "#!/bin/sh\n"),
		tr.chmod("run.sh", 0o755), tr.symlink("link", "src/a.go"))
	secret := tr.write(".env.local", "KEY=1\n")
	secret.Class = 1
	c.do(secret)
	before := tr.clone()
	c.as("A", "sed", "t1", 10).do(tr.write("src/a.go", "A\n"), tr.write("src/b.go", "B\n"))
	c.as("A", "rm", "t2", 11).do(tr.remove("data/db"), tr.remove("data"), tr.remove(".env.local"), tr.remove("link"))
	c.as("A", "mv", "t3", 12).do(tr.rename("src/old", "src/new"), tr.chmod("run.sh", 0o644))
	c.as("A", "sh", "t4", 13).do(tr.write("src/c.go", "c\n"), tr.mkdir("out", dirMode), tr.write("out/log", "log\n"))
	agent := tr.clone()

	p := c.undo(UndoQuery{Select: Filter{Session: "A"}})
	if len(p.Conflicts)+len(p.Lost) > 0 {
		t.Fatalf("conflicts %+v lost %+v", p.Conflicts, p.Lost)
	}
	renames := 0
	for _, st := range p.Steps {
		if st.Do == DoRename {
			renames++
		}
	}
	if renames != 1 {
		t.Fatalf("the directory does not come back by one rename: %+v", p.Steps)
	}
	c.carry(p)
	if now := tr.clone(); !maps.Equal(now, before) {
		t.Fatalf("after undo:\n%swant\n%s", show(now), show(before))
	}
	redo, err := c.s.PlanRedo("", false, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.carry(redo)
	if now := tr.clone(); !maps.Equal(now, agent) {
		t.Fatalf("after redo:\n%swant\n%s", show(now), show(agent))
	}
	if _, err := c.s.PlanRedo("", false, nil); !errors.Is(err, ErrNotFound) {
		t.Fatalf("redo of nothing: %v", err)
	}

	// A human edit in between is a conflict; all else is undone.
	c.as("", "vim", "", 6).do(tr.write("src/b.go", "B by hand\n"))
	p = c.undo(UndoQuery{Select: Filter{Session: "A"}})
	if len(p.Conflicts) != 1 || p.Conflicts[0].Path != "src/b.go" || p.Conflicts[0].Actor.Comm != "vim" {
		t.Fatalf("conflicts %+v", p.Conflicts)
	}
	c.carry(p)
	c.want("src/b.go", "B by hand\n")
	c.want("src/a.go", "a\n")

	// By force it goes as well.
	p = c.undo(UndoQuery{Select: Filter{Session: "A"}, Force: true})
	if len(p.Steps) != 1 {
		t.Fatalf("forced: %+v", p.Steps)
	}
	c.carry(p)
	c.want("src/b.go", "b\n")
}

func TestUndoUnits(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "vim", "", 5).do(tr.write("a", "0"), tr.write("b", "0"), tr.write("c.txt", "0"))
	c.as("A", "sed", "t1", 10).do(tr.write("a", "1"), tr.write("b", "1"))
	c.as("A", "sed", "t2", 11).do(tr.write("b", "2"), tr.write("c.txt", "2"))
	c.as("", "make", "", 12).do(tr.write("a", "3"))
	began := time.Unix(0, clock)
	clock += 60e9
	c.do(tr.write("b", "3"), tr.write("d", "3"))

	// The last burst of make is two files; the one before its pause stays.
	p := c.undo(UndoQuery{Last: true})
	c.carry(p)
	c.want("b", "2")
	c.want("a", "3")
	if tr.files["d"] != nil {
		t.Fatal("d stays")
	}
	// The one before: make's first write; then the tool calls, newest first.
	c.carry(c.undo(UndoQuery{Last: true}))
	c.want("a", "1")
	c.carry(c.undo(UndoQuery{Last: true}))
	c.want("b", "1")
	c.want("c.txt", "0")
	c.carry(c.undo(UndoQuery{Last: true}))
	c.want("a", "0")
	c.want("b", "0")
	// Redo goes back up.
	for _, want := range []string{"1", "1"} {
		p, err := c.s.PlanRedo("", false, nil)
		if err != nil {
			t.Fatal(err)
		}
		c.carry(p)
		c.want("a", want)
	}
	c.want("c.txt", "2")
	p = c.undo(UndoQuery{Select: Filter{Session: "A"}, Globs: []string{"*.txt"}})
	if len(p.Steps) != 1 || p.Steps[0].Path != "c.txt" {
		t.Fatalf("by glob: %+v", p.Steps)
	}
	if _, err := c.s.PlanUndo(UndoQuery{Select: Filter{ToolCall: "none"}}); !errors.Is(err, ErrNotFound) {
		t.Fatalf("nothing to undo: %v", err)
	}
	if _, err := c.s.PlanUndo(UndoQuery{Select: Filter{Since: began.Add(time.Hour)}}); !errors.Is(err, ErrNotFound) {
		t.Fatalf("nothing since: %v", err)
	}
}

func TestUndoMerge(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	text := func(first, last string) string {
		return first + "\n" + strings.Repeat("same\n", 10) + last + "\n"
	}
	c.as("", "vim", "", 5).do(tr.write("a", text("one", "end")))
	c.as("A", "sed", "t1", 10).do(tr.write("a", text("ONE", "end")))
	c.as("", "vim", "", 5).do(tr.write("a", text("ONE", "END")))
	p := c.undo(UndoQuery{Select: Filter{Session: "A"}, Merge: true})
	if len(p.Steps) != 1 || len(p.Conflicts) > 0 {
		t.Fatalf("%+v", p)
	}
	c.carry(p)
	c.want("a", text("one", "END"))
	c.as("A", "sed", "t1", 10).do(tr.write("a", text("Uno", "END")))
	c.as("", "vim", "", 5).do(tr.write("a", text("Eins", "END")))
	p = c.undo(UndoQuery{Select: Filter{Session: "A"}, Merge: true})
	if len(p.Steps) != 0 || len(p.Conflicts) != 1 {
		t.Fatalf("overlapping: %+v", p)
	}
}

func TestMerge3(t *testing.T) {
	for _, tc := range []struct{ base, a, b, want string }{
		{"1\n2\n3\n4\n5\n", "1\nA\n3\n4\n5\n", "1\n2\n3\nB\n5\n", "1\nA\n3\nB\n5\n"},
		{"1\n2\n3\n", "1\n2\n3\n", "1\nB\n3\n", "1\nB\n3\n"},
		{"1\n2\n3\n", "1\nX\n3\n", "1\nX\n3\n", "1\nX\n3\n"},
		{"1\n2\n3\n", "1\nX\n3\n", "1\nY\n3\n", ""},
		{"1\n2\n3\n4\n", "1\n3\n4\n", "1\n2\n3\n4\n5", "1\n3\n4\n5"},
		{"1\n2\n", "1\n2\na\n", "1\n2\nb\n", ""},
		{"", "a\n", "a\n", "a\n"},
	} {
		got, ok := merge3([]byte(tc.base), []byte(tc.a), []byte(tc.b))
		if ok != (tc.want != "") || string(got) != tc.want {
			t.Errorf("merge %q: %q and %q: %q %v, want %q", tc.base, tc.a, tc.b, got, ok, tc.want)
		}
	}
}

func TestRevert(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "vim", "", 5).do(tr.write("a", "1"), tr.write("a", "2"), tr.chmod("a", 0o600), tr.write("b.tmp", "3"), tr.rename("b.tmp", "a"))
	before := tr.clone()
	revert := func(steps int, version uint64) {
		t.Helper()
		p, err := c.s.PlanRevert("a", steps, version, nil)
		if err != nil {
			t.Fatal(err)
		}
		c.carry(p)
	}
	revert(1, 0)
	c.want("a", "2")
	if m := tr.files["a"].mode & 0o777; m != 0o600 {
		t.Fatalf("mode %o", m)
	}
	revert(1, 0)
	if now := tr.clone(); !maps.Equal(now, before) {
		t.Fatalf("revert of a revert:\n%s", show(now))
	}
	revert(0, 1)
	c.want("a", "1")
	c.do(tr.remove("a"))
	revert(1, 0)
	c.want("a", "1")
	if _, err := c.s.PlanRevert("a", 50, 0, nil); !errors.Is(err, ErrNotFound) {
		t.Fatalf("50 steps: %v", err)
	}
	if _, err := c.s.PlanRevert("never", 1, 0, nil); !errors.Is(err, ErrNotFound) {
		t.Fatalf("unknown path: %v", err)
	}
}

// What cannot be brought back is said, not guessed.
func TestLost(t *testing.T) {
	s := fresh(t)
	big := op(OpBaseline, "big", "", fileMode)
	big.Stat.Size, big.NoContent = 64*mib, "too large"
	unseen := file(OpWrite, "unseen", "first seen when it was overwritten")
	gone := op(OpUnlink, "big", "", fileMode)
	gone.Actor.Session, unseen.Actor.Session = "A", "A"
	apply(t, s, big, gone, unseen)
	p, err := s.PlanUndo(UndoQuery{Select: Filter{Session: "A"}})
	if err != nil || len(p.Steps) != 0 || len(p.Lost) != 2 || p.Lost[1].Why != "too large" && p.Lost[0].Why != "too large" {
		t.Fatalf("%v %+v", err, p)
	}
}

// A client killed in the middle of an undo leaves an open plan: it can be gone
// on with, or rolled back.
func TestResumeOrRollback(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := world{freshRapid(r), newTree()}
		w.act(r, Actor{PID: 2, Session: "B"}, 10)
		w.act(r, Actor{PID: 1, Session: "A"}, 10)
		before := w.tr.clone()
		p, err := w.s.PlanUndo(UndoQuery{Select: Filter{Session: "A"}})
		if err != nil || len(p.Steps) == 0 {
			return
		}
		if err := w.s.BeginPlan(context.Background(), p); err != nil {
			r.Fatal(err)
		}
		w.tr.actor = Actor{PID: 99}
		stop := rapid.IntRange(0, len(p.Steps)-1).Draw(r, "steps done")
		half := *p
		half.Steps = p.Steps[:stop]
		cs, err := w.tr.perform(w.s, &half)
		if err != nil {
			r.Fatal(err)
		}
		w.apply(r, cs...)
		for n := range stop {
			if err := w.s.StepsDone(p.ID, n+1); err != nil {
				r.Fatal(err)
			}
		}
		open, err := w.s.OpenPlans()
		if err != nil || len(open) != 1 || len(open[0].Done) != stop || len(open[0].Steps) != len(p.Steps) {
			r.Fatalf("open plans: %v %+v", err, open)
		}
		if rapid.Bool().Draw(r, "resume") {
			half.Steps = p.Steps[stop:]
			cs, err := w.tr.perform(w.s, &half)
			if err != nil {
				r.Fatal(err)
			}
			w.apply(r, cs...)
			if err := w.s.FinishPlan(p.ID, nil); err != nil {
				r.Fatal(err)
			}
			again, err := w.s.PlanUndo(UndoQuery{Select: Filter{Session: "A"}})
			if err == nil && len(again.Steps) > 0 {
				r.Fatalf("resumed, but still to do: %+v", again.Steps)
			}
			return
		}
		back, err := w.s.PlanRollback(p.ID, nil)
		if err != nil || len(back.Conflicts) > 0 {
			r.Fatalf("rollback: %v %+v", err, back)
		}
		w.carry(r, back)
		if now := w.tr.clone(); !maps.Equal(now, before) {
			r.Fatalf("rolled back:\n%swant\n%s", show(now), show(before))
		}
	})
}

func BenchmarkUndo10k(b *testing.B) {
	s := open(b, b.TempDir(), testOptions())
	rnd := rand.New(rand.NewPCG(1, 1))
	var made, gone []Change
	for i := range 10000 {
		p := Path(fmt.Sprintf("d%d/f%d", i%100, i))
		made = append(made, file(OpCreate, p, string(noise(rnd, 20))))
		c := op(OpUnlink, p, "", fileMode)
		c.Actor.Session = "A"
		gone = append(gone, c)
	}
	for i := 0; i < len(made); i += 250 {
		apply(b, s, made[i:i+250]...)
	}
	for i := 0; i < len(gone); i += 250 {
		apply(b, s, gone[i:i+250]...)
	}
	for b.Loop() {
		p, err := s.PlanUndo(UndoQuery{Select: Filter{Session: "A"}})
		if err != nil || len(p.Steps) < 10000 {
			b.Fatal(err, len(p.Steps))
		}
		if err := s.BeginPlan(context.Background(), p); err != nil {
			b.Fatal(err)
		}
		for _, st := range p.Steps {
			if st.Do == DoWrite {
				if _, err := s.PlanContent(p.ID, st.N); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
}
