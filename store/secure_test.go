package store

import (
	"context"
	"maps"
	"path"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// smallest is Options.MaxBlob where most of what is written is too large for it.
const smallest = 24

// lax tells of changes as it is done on a mount: what is too large has no content,
// and that of an ignored file is saved when it is about to be destroyed.
type lax struct{ world }

func ignored(p Path) bool { return path.Base(string(p)) == "f-x" }

func (w lax) tell(r *rapid.T, was map[Path]inodeModel, cs ...Change) {
	var out []Change
	for _, c := range cs {
		to := c.Path
		if c.Path2 != "" {
			to = c.Path2
		}
		if c.Class = 0; ignored(to) {
			c.Class = 1
		}
		gone := c.Path // whose content is destroyed
		if c.Op == OpRename {
			gone = c.Path2
		}
		switch old, had := was[gone]; {
		case c.Op != OpWrite && c.Op != OpUnlink && c.Op != OpRename:
		case !had || !ignored(gone) || old.mode&unix.S_IFMT != unix.S_IFREG:
		case c.Op != OpWrite && w.tr.has(old.ino): // under another name
		default:
			b := Change{Op: OpBaseline, Class: 1, Path: gone, Time: c.Time, Node: old.ino, Stat: Stat{Dev: 1, Ino: old.ino, Birth: 7, Mode: old.mode, Nlink: 1, Size: int64(len(old.data)), Mtime: old.mtime}}
			if len(old.data) > smallest {
				b.NoContent = "too large"
			} else {
				b.HasContent, b.Content = true, []byte(old.data)
			}
			out = append(out, b)
		}
		if c.HasContent && (len(c.Content) > smallest || c.Class == 1) {
			if len(c.Content) > smallest && c.Class == 0 {
				c.NoContent = "too large"
			}
			c.HasContent, c.Content = false, nil
		}
		out = append(out, c)
	}
	w.apply(r, out...)
}

func (t *tree) has(ino uint64) bool {
	for _, n := range t.files {
		if n.ino == ino {
			return true
		}
	}
	return false
}

// whole is a copy with all that a model has.
func (t *tree) whole() map[Path]inodeModel {
	out := map[Path]inodeModel{}
	for p, n := range t.files {
		out[p] = *n
	}
	return out
}

func (w lax) act(r *rapid.T, who Actor, most int) {
	w.tr.actor = who
	for range rapid.IntRange(1, most).Draw(r, "acts") {
		was := w.tr.whole()
		if c, ok := w.tr.step(r); ok {
			w.tell(r, was, c)
		}
	}
}

func (w lax) secure(r *rapid.T) Secure {
	return func(vs []Version) map[Path]string {
		var fs []Found
		why := map[Path]string{}
		for _, v := range vs {
			n := w.tr.files[v.Path]
			if n == nil || int64(len(n.data)) != v.Stat.Size || n.mtime != v.Stat.Mtime || n.ino != v.Stat.Ino {
				r.Fatalf("asked to secure %+v, which is %+v", v, n)
			}
			if rapid.IntRange(0, 9).Draw(r, "unreadable") == 0 {
				why[v.Path] = "permission denied"
				continue
			}
			fs = append(fs, Found{v, []byte(n.data)})
		}
		if err := w.s.Fill(context.Background(), fs); err != nil {
			r.Fatal(err)
		}
		return why
	}
}

// carry performs a plan; every content is in the store afterwards, or still there.
func (w lax) carry(r *rapid.T, p *Plan) {
	if len(p.Steps) == 0 {
		return
	}
	if err := w.s.BeginPlan(context.Background(), p); err != nil {
		r.Fatal(err)
	}
	was := w.tr.whole()
	w.tr.actor = Actor{PID: 99, Comm: "cachebro"}
	steps := p.Steps
	for i := range steps {
		one := *p
		one.Steps = steps[i : i+1]
		before := w.tr.whole()
		cs, err := w.tr.perform(w.s, &one)
		if err != nil {
			r.Fatalf("perform: %v\nplan %+v", err, steps)
		}
		for j := range cs { // a step that is several changes: each destroys nothing that the one before made
			w.tell(r, before, cs[j])
			before = w.tr.whole()
		}
	}
	if err := w.s.FinishPlan(p.ID, nil); err != nil {
		r.Fatal(err)
	}
	for path, n := range was {
		if n.mode&unix.S_IFMT != unix.S_IFREG || n.data == "" || w.s.Has(hashFor(n.data)) {
			continue
		}
		kept := false
		for _, now := range w.tr.files {
			kept = kept || now.ino == n.ino && now.data == n.data
		}
		if !kept {
			r.Fatalf("%q %q is destroyed\nplan %+v\nconflicts %+v", path, n.data, steps, p.Conflicts)
		}
	}
}

func hashFor(s string) Hash { return Hash(hashOf(s)) }

// No plan destroys what the store does not have, and redo is exactly what was
// before: also where contents are too large, ignored, or cannot be read.
func TestPlansDestroyNothing(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := lax{world{freshRapid(r), newTree()}}
		w.s.opt.MaxBlob = smallest
		a, b := Actor{PID: 1, Session: "A", Comm: "a"}, Actor{PID: 2, Session: "B", Comm: "b"}
		w.act(r, b, 10)
		first := w.s.Seq()
		for range rapid.IntRange(1, 3).Draw(r, "turns") {
			w.act(r, a, 8)
			w.act(r, b, 2)
		}
		before := w.tr.clone()
		q := UndoQuery{Select: Filter{Session: "A"}, Force: rapid.Bool().Draw(r, "force"), Secure: w.secure(r)}
		p, err := w.s.PlanUndo(q)
		if err != nil {
			return // A found nothing to do
		}
		w.carry(r, p)
		after := w.tr.clone()
		if len(p.Steps) > 0 {
			redo, err := w.s.PlanRedo("", false, w.secure(r))
			if err != nil {
				r.Fatal(err)
			}
			w.carry(r, redo)
			if now := w.tr.clone(); !maps.Equal(now, before) && !strings.Contains(why(redo), "permission denied") {
				r.Fatalf("redo is not what was before undo:\n%v\nwant\n%v\nundo %+v\nredo %+v\n%s", show(now), show(before), p.Steps, redo.Steps, why(redo))
			}
			again, err := w.s.PlanUndo(q)
			if err != nil {
				r.Fatal(err)
			}
			w.carry(r, again)
			if now := w.tr.clone(); !maps.Equal(now, after) && !strings.Contains(why(p)+why(redo)+why(again), "permission denied") {
				r.Fatalf("undo after redo is not the first undo:\n%v\nwant\n%v\nundo %+v\nredo %+v\nagain %+v\n%s", show(now), show(after), p.Steps, redo.Steps, again.Steps, why(again))
			}
		}
		restore, err := w.s.PlanRestore(nil, rapid.SampledFrom([]uint64{0, first, w.s.Seq() / 2}).Draw(r, "back to"), w.secure(r))
		if err != nil {
			r.Fatal(err)
		}
		w.carry(r, restore)
	})
}

func why(p *Plan) string {
	out := ""
	for _, c := range append(p.Conflicts, p.Lost...) {
		out += string(c.Path) + ": " + c.Why + "\n"
	}
	return out
}
