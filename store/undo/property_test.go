package undo

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"cachebro/scripts/testkit/storetest"
	"cachebro/store"

	"pgregory.net/rapid"
)

// world is a tree with its history in a store. Two actors change the tree.
type world struct {
	s  *store.Store
	tr *storetest.Tree
}

func (w world) apply(r *rapid.T, cs ...store.Change) {
	for _, c := range cs {
		r.Logf("OP %v %q %q ino %d nlink %d by %s%s plan %s %q", c.Op, c.Path, c.Path2, c.Stat.Ino, c.Stat.Nlink, c.Actor.Session, c.Actor.Comm, c.Plan, c.Content[:min(len(c.Content), 12)])
	}
	if _, err := w.s.Apply(context.Background(), cs, nil); err != nil {
		r.Fatal(err)
	}
}

func (w world) act(r *rapid.T, who store.Actor, most int) {
	w.tr.Actor = who
	for range rapid.IntRange(1, most).Draw(r, "acts") {
		if c, ok := w.tr.Step(r); ok {
			w.apply(r, c)
		}
	}
}

// carry begins a plan, performs it, and finishes it.
func (w world) carry(r *rapid.T, p *Draft) { w.carryAs(r, p, store.Actor{PID: 99, Comm: "cachebro"}) }

func (w world) carryAs(r *rapid.T, p *Draft, who store.Actor) {
	for _, st := range p.Steps {
		r.Logf("STEP %d %s %q to %q apart %v mode %o", st.N, st.Do, st.Path, st.To, st.Apart, st.Mode)
	}
	for _, c := range append(p.Conflicts, p.Lost...) {
		r.Logf("NAMED %q %s", c.Path, c.Why)
	}
	r.Logf("CELLS %v", p.Cells)
	if err := w.s.Journal.Begin(context.Background(), &p.Plan, p.Made); err != nil {
		r.Fatal(err)
	}
	w.tr.Actor = who
	cs, err := w.tr.Perform(w.s, &p.Plan)
	if err != nil {
		r.Fatalf("perform: %v\nplan %+v", err, p.Steps)
	}
	w.apply(r, cs...)
	if err := finish(w.s, p); err != nil {
		r.Fatal(err)
	}
}

// notBy returns the files of the tree whose newest version was written by somebody else than this
// actor, and whose content is none that this actor has left anywhere.
func (w world) notBy(r *rapid.T, ses store.SessionID) map[store.Path]storetest.File {
	type content struct {
		blob   store.Hash
		target string
	}
	out, left := map[store.Path]storetest.File{}, map[content]bool{}
	for _, v := range w.mustLog(r, ses) {
		left[content{v.Blob, v.Target}] = true
	}
	for p, n := range w.tr.Clone() {
		v, _, err := w.s.Current(p)
		if err != nil {
			r.Fatal(err)
		}
		written := v.Op == store.OpCreate || v.Op == store.OpWrite || v.Op == store.OpSymlink || v.Op == store.OpMkdir
		if written && v.Actor.Session != ses && v.Plan == "" && !left[content{v.Blob, v.Target}] {
			out[p] = n
		}
	}
	return out
}

// An undo of one actor's changes never changes a file that another actor wrote last, unless it is as
// the first one had left it. A redo
// restores the tree exactly, and so does an undo of the undo.
func TestUndoRedo(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := world{storetest.FreshRapid(r, storetest.Options()), storetest.NewTree()}
		w.tr.Bare = rapid.Bool().Draw(r, "bare")
		a, b := store.Actor{PID: 1, Session: "A", Comm: "a"}, store.Actor{PID: 2, Session: "B", Comm: "b"}
		w.act(r, b, 10)
		for range rapid.IntRange(1, 3).Draw(r, "turns") {
			w.act(r, a, 8)
			w.act(r, b, 4)
		}
		w.act(r, a, 8)
		before := w.tr.Clone()
		others := w.notBy(r, "A")
		p, err := Planner{Store: w.s}.Undo(Query{Select: store.Filter{Session: "A"}})
		if err != nil {
			if store.Hint(err) == "" && len(w.mustLog(r, "A")) == 0 {
				return // A found nothing to do
			}
			r.Fatal(err)
		}
		w.carry(r, p)
		after := w.tr.Clone()
		if msg := storetest.Differs(w.s, after); msg != "" {
			r.Fatal(msg)
		}
		for path, n := range others {
			got, ok := after[path]
			moved := false // A had put it there, or given it this name
			for _, o := range after {
				moved = moved || o.Data == n.Data && o.Target == n.Target
			}
			if (!ok || got != n) && !moved {
				r.Fatalf("undo of A changed %q of B: %+v, was %+v (%v)\nplan %+v\nconflicts %+v", path, got, n, ok, p.Steps, p.Conflicts)
			}
		}
		again, err := Planner{Store: w.s}.Undo(Query{Select: store.Filter{Session: "A"}})
		if err == nil && len(again.Steps) > 0 {
			r.Fatalf("undone twice: %+v", again.Steps)
		}
		if len(p.Steps) == 0 {
			return
		}
		redo, err := Planner{Store: w.s}.Redo("", false, false)
		if err != nil || len(redo.Conflicts) > 0 {
			r.Fatalf("redo: %v %v %v", err, redo.Conflicts, redo.Lost)
		}
		w.carry(r, redo)
		if now := w.tr.Clone(); !maps.Equal(now, before) {
			r.Fatalf("redo is not what was before undo:\n%v\nwant\n%v\nundo %+v\nredo %+v", show(now), show(before), p.Steps, redo.Steps)
		}
		third, err := Planner{Store: w.s}.Undo(Query{Select: store.Filter{Session: "A"}})
		if err != nil {
			r.Fatal(err)
		}
		w.carry(r, third)
		if now := w.tr.Clone(); !maps.Equal(now, after) {
			r.Fatalf("undo after redo is not the first undo:\n%v\nwant\n%v", show(now), show(after))
		}
		back, err := Planner{Store: w.s}.Undo(Query{Select: store.Filter{Plan: third.ID}})
		if err != nil {
			r.Fatal(err)
		}
		w.carry(r, back)
		if now := w.tr.Clone(); !maps.Equal(now, before) {
			r.Fatalf("undo of an undo:\n%v\nwant\n%v", show(now), show(before))
		}
	})
}

func (w world) mustLog(r *rapid.T, ses store.SessionID) []store.Version {
	vs, _, err := w.s.Log(store.Filter{Session: ses})
	if err != nil {
		r.Fatal(err)
	}
	return vs
}

func show(m map[store.Path]storetest.File) string {
	out := ""
	for _, p := range slices.Sorted(maps.Keys(m)) {
		out += fmt.Sprintf("  %q %+v\n", p, m[p])
	}
	return out
}

// If there is only one actor, an undo of everything gives the empty tree of the beginning, and a
// restore reaches every state in between.
func TestRestoreEveryState(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := world{storetest.FreshRapid(r, storetest.Options()), storetest.NewTree()}
		w.tr.Bare = rapid.Bool().Draw(r, "bare")
		type moment struct {
			seq  uint64
			tree map[store.Path]storetest.File
		}
		moments := []moment{{0, map[store.Path]storetest.File{}}}
		for range rapid.IntRange(1, 6).Draw(r, "moments") {
			w.act(r, store.Actor{PID: 1, Session: "A"}, 6)
			moments = append(moments, moment{w.s.Seq(), w.tr.Clone()})
		}
		for range 3 {
			m := rapid.SampledFrom(moments).Draw(r, "back to")
			p, err := Planner{Store: w.s}.Restore(nil, m.seq)
			if err != nil || len(p.Conflicts)+len(p.Lost) > 0 {
				r.Fatalf("restore: %v %v %v", err, p.Conflicts, p.Lost)
			}
			w.carry(r, p)
			if now := w.tr.Clone(); !maps.Equal(now, m.tree) {
				r.Fatalf("restored to %d:\n%v\nwant\n%v\nplan %+v", m.seq, show(now), show(m.tree), p.Steps)
			}
		}
	})
}
