package undo

import (
	"context"
	"maps"
	"path"
	"strings"
	"testing"

	"cachebro/scripts/testkit/storetest"
	"cachebro/store"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// smallest is a MaxBlob that is so small that most written contents are too large.
const smallest = 24

// lax reports changes as they are reported on a mount: a content that is too large is missing, and
// the content of an ignored file is saved just before it is destroyed.
type lax struct{ world }

func ignored(p store.Path) bool { return path.Base(string(p)) == "f-x" }

func (w lax) tell(r *rapid.T, was map[store.Path]storetest.File, cs ...store.Change) {
	var out []store.Change
	for _, c := range cs {
		to := c.Path
		if c.Path2 != "" {
			to = c.Path2
		}
		if c.Class = 0; ignored(to) {
			c.Class = 1
		}
		gone := c.Path // the path whose content is destroyed
		if c.Op == store.OpRename {
			gone = c.Path2
		}
		switch old, had := was[gone]; {
		case c.Op != store.OpWrite && c.Op != store.OpUnlink && c.Op != store.OpRename:
		case !had || !ignored(gone) || old.Mode&unix.S_IFMT != unix.S_IFREG:
		case c.Op != store.OpWrite && w.tr.Has(old.Ino): // the file still exists under another name
		default:
			b := store.Change{Op: store.OpBaseline, Class: 1, Path: gone, Time: c.Time, Node: old.Ino, Stat: store.Stat{Dev: 1, Ino: old.Ino, Birth: old.Birth, Mode: old.Mode, Nlink: 1, Size: int64(len(old.Data)), Mtime: old.Mtime}}
			if len(old.Data) > smallest {
				b.NoContent = "too large"
			} else {
				b.HasContent, b.Content = true, []byte(old.Data)
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

func (w lax) act(r *rapid.T, who store.Actor, most int) {
	w.tr.Actor = who
	for range rapid.IntRange(1, most).Draw(r, "acts") {
		was := w.tr.Whole()
		if c, ok := w.tr.Step(r); ok {
			w.tell(r, was, c)
		}
	}
}

func (w lax) secure(r *rapid.T) Secure {
	return func(vs []store.Version) map[store.Path]string {
		var fs []store.Found
		why := map[store.Path]string{}
		for _, v := range vs {
			n := w.tr.Files[v.Path]
			if n == nil || int64(len(n.Data)) != v.Stat.Size || n.Mtime != v.Stat.Mtime || n.Ino != v.Stat.Ino {
				r.Fatalf("asked to secure %+v, which is %+v", v, n)
			}
			if rapid.IntRange(0, 9).Draw(r, "unreadable") == 0 {
				why[v.Path] = "permission denied"
				continue
			}
			fs = append(fs, store.Found{Version: v, Content: []byte(n.Data)})
		}
		if err := w.s.Fill(context.Background(), fs); err != nil {
			r.Fatal(err)
		}
		return why
	}
}

// carry performs a plan. Afterwards it checks that every earlier content is in the store or still
// in a file.
func (w lax) carry(r *rapid.T, p *Draft) {
	if len(p.Steps) == 0 {
		return
	}
	if err := w.s.Journal.Begin(context.Background(), &p.Plan, p.Made); err != nil {
		r.Fatal(err)
	}
	was := w.tr.Whole()
	w.tr.Actor = store.Actor{PID: 99, Comm: "cachebro"}
	steps := p.Steps
	for i := range steps {
		one := p.Plan
		one.Steps = steps[i : i+1]
		before := w.tr.Whole()
		cs, err := w.tr.Perform(w.s, &one)
		if err != nil {
			r.Fatalf("perform: %v\nplan %+v", err, steps)
		}
		for j := range cs { // a step may be several changes, none of which destroys what an earlier one made
			w.tell(r, before, cs[j])
			before = w.tr.Whole()
		}
	}
	if err := finish(w.s, p); err != nil {
		r.Fatal(err)
	}
	for path, n := range was {
		if n.Mode&unix.S_IFMT != unix.S_IFREG || n.Data == "" || w.s.Has(hashFor(n.Data)) {
			continue
		}
		kept := false
		for _, now := range w.tr.Files {
			kept = kept || now.Ino == n.Ino && now.Data == n.Data
		}
		if !kept {
			r.Fatalf("%q %q is destroyed\nplan %+v\nconflicts %+v", path, n.Data, steps, p.Conflicts)
		}
	}
}

func hashFor(s string) store.Hash { return store.Hash(storetest.HashOf(s)) }

// No plan destroys what the store does not have, and a redo restores exactly what was there before.
// This also holds if contents are too large, ignored, or cannot be read.
func TestPlansDestroyNothing(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		o := storetest.Options()
		o.MaxBlob = smallest
		w := lax{world{storetest.FreshRapid(r, o), storetest.NewTree()}}
		a, b := store.Actor{PID: 1, Session: "A", Comm: "a"}, store.Actor{PID: 2, Session: "B", Comm: "b"}
		w.act(r, b, 10)
		first := w.s.Seq()
		for range rapid.IntRange(1, 3).Draw(r, "turns") {
			w.act(r, a, 8)
			w.act(r, b, 2)
		}
		before := w.tr.Clone()
		q := Query{Select: store.Filter{Session: "A"}, Force: rapid.Bool().Draw(r, "force")}
		planner := Planner{Store: w.s, Secure: w.secure(r)}
		p, err := planner.Undo(q)
		if err != nil {
			return // A found nothing to do
		}
		w.carry(r, p)
		after := w.tr.Clone()
		if len(p.Steps) > 0 {
			redo, err := planner.Redo("", false, false)
			if err != nil {
				r.Fatal(err)
			}
			w.carry(r, redo)
			if now := w.tr.Clone(); !maps.Equal(now, before) && !strings.Contains(why(redo), "permission denied") {
				r.Fatalf("redo is not what was before undo:\n%v\nwant\n%v\nundo %+v\nredo %+v\n%s", show(now), show(before), p.Steps, redo.Steps, why(redo))
			}
			again, err := planner.Undo(q)
			if err != nil {
				r.Fatal(err)
			}
			w.carry(r, again)
			if now := w.tr.Clone(); !maps.Equal(now, after) && !strings.Contains(why(p)+why(redo)+why(again), "permission denied") {
				r.Fatalf("undo after redo is not the first undo:\n%v\nwant\n%v\nundo %+v\nredo %+v\nagain %+v\n%s", show(now), show(after), p.Steps, redo.Steps, again.Steps, why(again))
			}
		}
		restore, err := planner.Restore(nil, rapid.SampledFrom([]uint64{0, first, w.s.Seq() / 2}).Draw(r, "back to"))
		if err != nil {
			r.Fatal(err)
		}
		w.carry(r, restore)
	})
}

func why(p *Draft) string {
	out := ""
	for _, c := range append(p.Conflicts, p.Lost...) {
		out += string(c.Path) + ": " + c.Why + "\n"
	}
	return out
}
