package store

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

func freshRapid(r *rapid.T) *Store {
	dir, err := os.MkdirTemp("", "cachebro-store-")
	if err != nil {
		r.Fatal(err)
	}
	s, err := Open(dir, testOptions())
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { s.Close(); os.RemoveAll(dir) })
	return s
}

// Whatever happens to a tree, the store's live paths are the tree, in batches
// of any size, and every content that was closed can still be read.
func TestApplyModel(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := freshRapid(r)
		tr := newTree()
		tr.tails = true
		var batch []Change
		wrote := map[Path][]string{}
		flush := func() {
			if _, err := s.Apply(context.Background(), batch, nil); err != nil {
				r.Fatal(err)
			}
			batch = nil
			if msg := differs(s, tr.clone()); msg != "" {
				r.Fatal(msg)
			}
		}
		for range rapid.IntRange(1, 60).Draw(r, "steps") {
			c, ok := tr.step(r)
			if !ok {
				continue
			}
			batch = append(batch, c)
			if c.Op == OpWrite || c.Op == OpCreate {
				wrote[c.Path] = append(wrote[c.Path], tr.files[c.Path].data)
			}
			if rapid.IntRange(0, 5).Draw(r, "flush") == 0 {
				flush()
			}
		}
		flush()
		s.contents.Forget()
		for p, texts := range wrote {
			vs, err := s.History(p, false)
			if err != nil {
				r.Fatal(err)
			}
			i := 0
			for _, v := range vs {
				if v.Deleted() || v.Stat.Mode&unix.S_IFMT != unix.S_IFREG {
					continue
				}
				b, err := s.Content(v.Blob)
				if err != nil {
					r.Fatalf("%q version %d: %v", p, v.Seq, err)
				}
				for i < len(texts) && texts[i] == string(b) {
					i++
				}
			}
			if i != len(texts) {
				r.Fatalf("%q: %d of %d closed contents are in its history, in order", p, i, len(texts))
			}
		}
	})
}

// world is a tree under a store, worked on by two actors.
type world struct {
	s  *Store
	tr *tree
}

func (w world) apply(r *rapid.T, cs ...Change) {
	if _, err := w.s.Apply(context.Background(), cs, nil); err != nil {
		r.Fatal(err)
	}
}

func (w world) act(r *rapid.T, who Actor, most int) {
	w.tr.actor = who
	for range rapid.IntRange(1, most).Draw(r, "acts") {
		if c, ok := w.tr.step(r); ok {
			w.apply(r, c)
		}
	}
}

// carry begins a plan, performs it, and finishes it.
func (w world) carry(r *rapid.T, p *Plan) {
	if err := w.s.BeginPlan(context.Background(), p); err != nil {
		r.Fatal(err)
	}
	w.tr.actor = Actor{PID: 99, Comm: "cachebro"}
	cs, err := w.tr.perform(w.s, p)
	if err != nil {
		r.Fatalf("perform: %v\nplan %+v", err, p.Steps)
	}
	w.apply(r, cs...)
	if err := w.s.FinishPlan(p.ID, nil); err != nil {
		r.Fatal(err)
	}
}

// own is the part of a tree whose newest effective version is not by an actor.
func (w world) notBy(r *rapid.T, ses SessionID) map[Path]inodeModel {
	out := map[Path]inodeModel{}
	for p, n := range w.tr.clone() {
		v, _, err := w.s.Current(p)
		if err != nil {
			r.Fatal(err)
		}
		if v.Actor.Session != ses && v.Plan == "" {
			out[p] = n
		}
	}
	return out
}

// Undo of one actor never changes what another wrote last, and redo brings the
// tree back exactly; so does undo of the undo.
func TestUndoRedo(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := world{freshRapid(r), newTree()}
		a, b := Actor{PID: 1, Session: "A", Comm: "a"}, Actor{PID: 2, Session: "B", Comm: "b"}
		w.act(r, b, 10)
		for range rapid.IntRange(1, 3).Draw(r, "turns") {
			w.act(r, a, 8)
			w.act(r, b, 4)
		}
		w.act(r, a, 8)
		before := w.tr.clone()
		others := w.notBy(r, "A")
		p, err := w.s.PlanUndo(UndoQuery{Select: Filter{Session: "A"}})
		if err != nil {
			if Hint(err) == "" && len(w.mustLog(r, "A")) == 0 {
				return // A found nothing to do
			}
			r.Fatal(err)
		}
		w.carry(r, p)
		after := w.tr.clone()
		if msg := differs(w.s, after); msg != "" {
			r.Fatal(msg)
		}
		for path, n := range others {
			if got, ok := after[path]; !ok || got != n {
				r.Fatalf("undo of A changed %q of B: %+v, was %+v (%v)\nplan %+v\nconflicts %+v", path, got, n, ok, p.Steps, p.Conflicts)
			}
		}
		again, err := w.s.PlanUndo(UndoQuery{Select: Filter{Session: "A"}})
		if err == nil && len(again.Steps) > 0 {
			r.Fatalf("undone twice: %+v", again.Steps)
		}
		if len(p.Steps) == 0 {
			return
		}
		redo, err := w.s.PlanRedo("", false, nil)
		if err != nil || len(redo.Conflicts) > 0 {
			r.Fatalf("redo: %v %+v", err, redo)
		}
		w.carry(r, redo)
		if now := w.tr.clone(); !maps.Equal(now, before) {
			r.Fatalf("redo is not what was before undo:\n%v\nwant\n%v\nundo %+v\nredo %+v", show(now), show(before), p.Steps, redo.Steps)
		}
		third, err := w.s.PlanUndo(UndoQuery{Select: Filter{Session: "A"}})
		if err != nil {
			r.Fatal(err)
		}
		w.carry(r, third)
		if now := w.tr.clone(); !maps.Equal(now, after) {
			r.Fatalf("undo after redo is not the first undo:\n%v\nwant\n%v", show(now), show(after))
		}
		back, err := w.s.PlanUndo(UndoQuery{Select: Filter{Plan: third.ID}})
		if err != nil {
			r.Fatal(err)
		}
		w.carry(r, back)
		if now := w.tr.clone(); !maps.Equal(now, before) {
			r.Fatalf("undo of an undo:\n%v\nwant\n%v", show(now), show(before))
		}
	})
}

func (w world) mustLog(r *rapid.T, ses SessionID) []Version {
	vs, _, err := w.s.Log(Filter{Session: ses})
	if err != nil {
		r.Fatal(err)
	}
	return vs
}

func show(m map[Path]inodeModel) string {
	out := ""
	for _, p := range slices.Sorted(maps.Keys(m)) {
		out += fmt.Sprintf("  %q %+v\n", p, m[p])
	}
	return out
}

// With one actor alone, undo of everything is the empty tree it began with, and
// restore reaches every state in between.
func TestRestoreEveryState(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := world{freshRapid(r), newTree()}
		type moment struct {
			seq  uint64
			tree map[Path]inodeModel
		}
		moments := []moment{{0, map[Path]inodeModel{}}}
		for range rapid.IntRange(1, 6).Draw(r, "moments") {
			w.act(r, Actor{PID: 1, Session: "A"}, 6)
			moments = append(moments, moment{w.s.Seq(), w.tr.clone()})
		}
		for range 3 {
			m := rapid.SampledFrom(moments).Draw(r, "back to")
			p, err := w.s.PlanRestore(nil, m.seq, nil)
			if err != nil || len(p.Conflicts)+len(p.Lost) > 0 {
				r.Fatalf("restore: %v %+v", err, p)
			}
			w.carry(r, p)
			if now := w.tr.clone(); !maps.Equal(now, m.tree) {
				r.Fatalf("restored to %d:\n%v\nwant\n%v\nplan %+v", m.seq, show(now), show(m.tree), p.Steps)
			}
		}
	})
}
