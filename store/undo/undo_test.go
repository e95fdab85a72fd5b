package undo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"cachebro/scripts/testkit/storetest"
	"cachebro/store"
	"cachebro/store/leaf/event"

	"pgregory.net/rapid"
)

// scene is a store and a tree with the same state.
type scene struct {
	*testing.T
	s  *store.Store
	tr *storetest.Tree
}

func newScene(t *testing.T) *scene { return &scene{t, storetest.Fresh(t), storetest.NewTree()} }

func (c *scene) as(session, comm, tool string, pid uint32) *scene {
	c.tr.Actor = store.Actor{PID: pid, Start: uint64(pid), Comm: comm, Session: store.SessionID(session), ToolCall: tool}
	return c
}

func (c *scene) do(cs ...store.Change) *scene {
	c.Helper()
	storetest.Apply(c.T, c.s, cs...)
	return c
}

func (c *scene) carry(p *Draft) {
	c.Helper()
	c.carryAs(p, "")
}

// carryAs carries out a plan on behalf of a session.
func (c *scene) carryAs(p *Draft, by store.SessionID) {
	c.Helper()
	if err := c.s.Journal.Begin(context.Background(), &p.Plan, p.Made); err != nil {
		c.Fatal(err)
	}
	was := c.tr.Actor
	c.tr.Actor = store.Actor{PID: 99, Comm: "cachebro", Session: by}
	cs, err := c.tr.Perform(c.s, &p.Plan)
	if err != nil {
		c.Fatalf("%v\n%+v", err, p.Steps)
	}
	storetest.Apply(c.T, c.s, cs...)
	c.tr.Actor = was
	if err := finish(c.s, p); err != nil {
		c.Fatal(err)
	}
}

// finish closes a plan whose steps have all been done.
func finish(s *store.Store, p *Draft) error {
	done := make([]int, len(p.Steps))
	for i := range done {
		done[i] = i + 1
	}
	return errors.Join(s.Journal.Done(p.ID, done...), s.Journal.Finish(p.ID, nil))
}

func (c *scene) undo(q Query) *Draft {
	c.Helper()
	q.Action = func(_ *store.View, of store.Version) (Action, error) { // as the log groups versions of processes without a terminal
		has := func(o store.Version) bool {
			return o.Actor.PID == of.Actor.PID && o.Actor.ToolCall == of.Actor.ToolCall && max(o.Time-of.Time, of.Time-o.Time) < int64(30*time.Second)
		}
		return Action{Has: has, First: 1, Last: of.Seq, What: of.Actor.Comm}, nil
	}
	p, err := Planner{Store: c.s}.Undo(q)
	if err != nil {
		c.Fatal(err)
	}
	return p
}

func (c *scene) want(p store.Path, data string) {
	c.Helper()
	n := c.tr.Files[p]
	if n == nil || n.Data != data {
		c.Fatalf("%q is %+v, want %q", p, n, data)
	}
}

// An agent's shell command edits, deletes and moves files, including some that git does not know.
// People complain about this most.
func TestUndoSession(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "vim", "", 5).do(
		tr.Mkdir("src", storetest.DirMode), tr.Mkdir("src/old", storetest.DirMode), tr.Write("src/a.go", "a\n"), tr.Write("src/b.go", "b\n"),
		tr.Write("src/old/x", "x\n"), tr.Mkdir("data", storetest.DirMode), tr.Write("data/db", "db\x00\n"), tr.Write("run.sh", "#!/bin/sh\n"),
		tr.Chmod("run.sh", 0o755), tr.Symlink("link", "src/a.go"))
	secret := tr.Write(".env.local", "KEY=1\n")
	secret.Class = 1
	c.do(secret)
	before := tr.Clone()
	c.as("A", "sed", "t1", 10).do(tr.Write("src/a.go", "A\n"), tr.Write("src/b.go", "B\n"))
	c.as("A", "rm", "t2", 11).do(tr.Remove("data/db"), tr.Remove("data"), tr.Remove(".env.local"), tr.Remove("link"))
	c.as("A", "mv", "t3", 12).do(tr.Rename("src/old", "src/new"), tr.Chmod("run.sh", 0o644))
	c.as("A", "sh", "t4", 13).do(tr.Write("src/c.go", "c\n"), tr.Mkdir("out", storetest.DirMode), tr.Write("out/log", "log\n"))
	agent := tr.Clone()

	p := c.undo(Query{Select: store.Filter{Session: "A"}})
	if len(p.Conflicts)+len(p.Lost) > 0 {
		t.Fatalf("conflicts %+v lost %+v", p.Conflicts, p.Lost)
	}
	renames := 0
	for _, st := range p.Steps {
		if st.Do == store.DoRename {
			renames++
		}
	}
	if renames != 1 {
		t.Fatalf("the directory does not come back by one rename: %+v", p.Steps)
	}
	c.carry(p)
	if now := tr.Clone(); !maps.Equal(now, before) {
		t.Fatalf("after undo:\n%swant\n%s", show(now), show(before))
	}
	redo, err := Planner{Store: c.s}.Redo("", false, false)
	if err != nil {
		t.Fatal(err)
	}
	c.carry(redo)
	if now := tr.Clone(); !maps.Equal(now, agent) {
		t.Fatalf("after redo:\n%swant\n%s", show(now), show(agent))
	}
	if _, err := (Planner{Store: c.s}).Redo("", false, false); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("redo of nothing: %v", err)
	}

	// A person's edit in between is a conflict, and everything else is undone.
	c.as("", "vim", "", 6).do(tr.Write("src/b.go", "B by hand\n"))
	p = c.undo(Query{Select: store.Filter{Session: "A"}})
	if len(p.Conflicts) != 1 || p.Conflicts[0].Path != "src/b.go" || p.Conflicts[0].Actor.Comm != "vim" {
		t.Fatalf("conflicts %+v", p.Conflicts)
	}
	c.carry(p)
	c.want("src/b.go", "B by hand\n")
	c.want("src/a.go", "a\n")

	// With Force that file is undone as well.
	p = c.undo(Query{Select: store.Filter{Session: "A"}, Force: true})
	if len(p.Steps) != 1 {
		t.Fatalf("forced: %+v", p.Steps)
	}
	c.carry(p)
	c.want("src/b.go", "b\n")
}

func TestUndoUnits(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "vim", "", 5).do(tr.Write("a", "0"), tr.Write("b", "0"), tr.Write("c.txt", "0"))
	c.as("A", "sed", "t1", 10).do(tr.Write("a", "1"), tr.Write("b", "1"))
	c.as("A", "sed", "t2", 11).do(tr.Write("b", "2"), tr.Write("c.txt", "2"))
	c.as("", "make", "", 12).do(tr.Write("a", "3"))
	began := storetest.Now()
	storetest.Wait(time.Minute)
	c.do(tr.Write("b", "3"), tr.Write("d", "3"))

	// After a pause, make wrote two files. Its writes before the pause stay.
	p := c.undo(Query{Last: true})
	c.carry(p)
	c.want("b", "2")
	c.want("a", "3")
	if tr.Files["d"] != nil {
		t.Fatal("d stays")
	}
	// The action before that is make's first write. Then come the tool calls, newest first.
	c.carry(c.undo(Query{Last: true}))
	c.want("a", "1")
	c.carry(c.undo(Query{Last: true}))
	c.want("b", "1")
	c.want("c.txt", "0")
	c.carry(c.undo(Query{Last: true}))
	c.want("a", "0")
	c.want("b", "0")
	// Redo goes back through the same states.
	for _, want := range []string{"1", "1"} {
		p, err := Planner{Store: c.s}.Redo("", false, false)
		if err != nil {
			t.Fatal(err)
		}
		c.carry(p)
		c.want("a", want)
	}
	c.want("c.txt", "2")
	p = c.undo(Query{Select: store.Filter{Session: "A"}, In: Names{Globs: []string{"*.txt"}}})
	if len(p.Steps) != 1 || p.Steps[0].Path != "c.txt" {
		t.Fatalf("by glob: %+v", p.Steps)
	}
	if _, err := (Planner{Store: c.s}).Undo(Query{Select: store.Filter{ToolCall: "none"}}); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("nothing to undo: %v", err)
	}
	if _, err := (Planner{Store: c.s}).Undo(Query{Select: store.Filter{Since: began.Add(time.Hour)}}); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("nothing since: %v", err)
	}
}

func TestUndoMerge(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	text := func(first, last string) string {
		return first + "\n" + strings.Repeat("same\n", 10) + last + "\n"
	}
	c.as("", "vim", "", 5).do(tr.Write("a", text("one", "end")))
	c.as("A", "sed", "t1", 10).do(tr.Write("a", text("ONE", "end")))
	c.as("", "vim", "", 5).do(tr.Write("a", text("ONE", "END")))
	p := c.undo(Query{Select: store.Filter{Session: "A"}, Merge: true})
	if len(p.Steps) != 1 || len(p.Conflicts) > 0 {
		t.Fatalf("%+v", p)
	}
	c.carry(p)
	c.want("a", text("one", "END"))
	c.as("A", "sed", "t1", 10).do(tr.Write("a", text("Uno", "END")))
	c.as("", "vim", "", 5).do(tr.Write("a", text("Eins", "END")))
	p = c.undo(Query{Select: store.Filter{Session: "A"}, Merge: true})
	if len(p.Steps) != 0 || len(p.Conflicts) != 1 {
		t.Fatalf("overlapping: %+v", p)
	}
}

func TestRevert(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "vim", "", 5).do(tr.Write("a", "1"), tr.Write("a", "2"), tr.Chmod("a", 0o600), tr.Write("b.tmp", "3"), tr.Rename("b.tmp", "a"))
	revert := func(steps int, version uint64) {
		t.Helper()
		p, err := Planner{Store: c.s}.Revert("a", steps, version)
		if err != nil {
			t.Fatal(err)
		}
		c.carry(p)
	}
	revert(1, 0)
	c.want("a", "2")
	if m := tr.Files["a"].Mode & 0o777; m != 0o600 {
		t.Fatalf("mode %o", m)
	}
	revert(1, 0) // continues from there
	c.want("a", "2")
	if m := tr.Files["a"].Mode & 0o777; m != 0o644 {
		t.Fatalf("mode %o", m)
	}
	revert(1, 0)
	c.want("a", "1")
	if _, err := (Planner{Store: c.s}).Revert("a", 1, 0); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("before the first version: %v", err)
	}
	c.do(tr.Write("a", "4"))
	revert(1, 0)
	c.want("a", "1")
	revert(0, 1)
	c.want("a", "1")
	c.do(tr.Remove("a"))
	revert(1, 0)
	c.want("a", "1")
	if _, err := (Planner{Store: c.s}).Revert("a", 50, 0); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("50 steps: %v", err)
	}
	if _, err := (Planner{Store: c.s}).Revert("never", 1, 0); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("unknown path: %v", err)
	}
}

// A revert of a file whose directory is a file now names it as a conflict. It used to find nothing to do.
func TestRevertBelowAFile(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "vim", "", 5).do(tr.Mkdir("d", storetest.DirMode), tr.Write("d/a", "1"), tr.Remove("d/a"), tr.Remove("d"), tr.Write("d", "2"))
	p, err := Planner{Store: c.s}.Revert("d/a", 1, 0)
	if err != nil || len(p.Steps) != 0 || len(p.Conflicts) != 1 || p.Conflicts[0].Path != "d/a" {
		t.Fatalf("%v, %+v", err, p)
	}
}

// A revert by a number of steps never leads to a state in which the file did not exist, or to one
// that was undone. Versions under an earlier name count as steps too.
func TestRevertNeverDeletes(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "vim", "", 5).do(tr.Write("a", "1"), tr.Write("a", "2"))
	revert := func(p store.Path, want string) {
		t.Helper()
		d, err := Planner{Store: c.s}.Revert(p, 1, 0)
		if want == "" {
			if !errors.Is(err, store.ErrNotFound) {
				t.Fatalf("%v %+v", err, d)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		c.carry(d)
		c.want(p, want)
	}
	c.as("A", "rm", "t1", 10).do(tr.Remove("a"))
	c.carry(c.undo(Query{Select: store.Filter{Session: "A"}}))
	c.want("a", "2")
	revert("a", "1")
	revert("a", "")
	c.as("", "vim", "", 5).do(tr.Write("a", "3"), tr.Remove("a"), tr.Write("a", "4"))
	revert("a", "3")
	c.as("B", "vim", "t2", 11).do(tr.Write("a", "5"))
	c.carry(c.undo(Query{Select: store.Filter{Session: "B"}}))
	c.want("a", "3")
	revert("a", "1")
	c.as("", "vim", "", 5).do(tr.Write("a", "6"), tr.Write("a", "7"), tr.Rename("a", "b"))
	revert("b", "6")
	revert("b", "1")
}

// Contents that cannot be restored are reported as lost, not guessed.
func TestLost(t *testing.T) {
	s := storetest.Fresh(t)
	big := storetest.Told(store.OpBaseline, "big", "", storetest.FileMode)
	big.Stat.Size, big.NoContent = 64<<20, "too large"
	unseen := storetest.Closed(store.OpWrite, "unseen", "first seen when it was overwritten")
	gone := storetest.Told(store.OpUnlink, "big", "", storetest.FileMode)
	gone.Actor.Session, unseen.Actor.Session = "A", "A"
	storetest.Apply(t, s, big, gone, unseen)
	p, err := Planner{Store: s}.Undo(Query{Select: store.Filter{Session: "A"}})
	if err != nil || len(p.Steps) != 0 || len(p.Lost) != 2 || p.Lost[1].Why != "too large" && p.Lost[0].Why != "too large" {
		t.Fatalf("%v %+v", err, p)
	}
}

// A client that is killed in the middle of an undo leaves an open plan. The plan can be continued
// or rolled back.
func TestResumeOrRollback(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := world{storetest.FreshRapid(r, storetest.Options()), storetest.NewTree()}
		w.act(r, store.Actor{PID: 2, Session: "B"}, 10)
		w.act(r, store.Actor{PID: 1, Session: "A"}, 10)
		before := w.tr.Clone()
		p, err := Planner{Store: w.s}.Undo(Query{Select: store.Filter{Session: "A"}})
		if err != nil || len(p.Steps) == 0 {
			return
		}
		if err := w.s.Journal.Begin(context.Background(), &p.Plan, p.Made); err != nil {
			r.Fatal(err)
		}
		w.tr.Actor = store.Actor{PID: 99}
		stop := rapid.IntRange(0, len(p.Steps)-1).Draw(r, "steps done")
		half := p.Plan
		half.Steps = p.Steps[:stop]
		cs, err := w.tr.Perform(w.s, &half)
		if err != nil {
			r.Fatal(err)
		}
		w.apply(r, cs...)
		for n := range stop {
			if err := w.s.Journal.Done(p.ID, n+1); err != nil {
				r.Fatal(err)
			}
		}
		open, err := w.s.Journal.Open()
		if err != nil || len(open) != 1 || len(open[0].Done) != stop || len(open[0].Steps) != len(p.Steps) {
			r.Fatalf("open plans: %v %+v", err, open)
		}
		if rapid.Bool().Draw(r, "resume") {
			half.Steps = p.Steps[stop:]
			cs, err := w.tr.Perform(w.s, &half)
			if err != nil {
				r.Fatal(err)
			}
			w.apply(r, cs...)
			if err := w.s.Journal.Finish(p.ID, nil); err != nil {
				r.Fatal(err)
			}
			again, err := Planner{Store: w.s}.Undo(Query{Select: store.Filter{Session: "A"}})
			if err == nil && len(again.Steps) > 0 {
				r.Fatalf("resumed, but still to do: %+v", again.Steps)
			}
			return
		}
		back, err := Planner{Store: w.s}.Rollback(p.ID)
		if err != nil || len(back.Conflicts) > 0 {
			r.Fatalf("rollback: %v %+v", err, back)
		}
		w.carry(r, back)
		if now := w.tr.Clone(); !maps.Equal(now, before) {
			r.Fatalf("rolled back:\n%swant\n%s", show(now), show(before))
		}
	})
}

// noise returns a text that a delta cannot make smaller.
func noise(rnd *rand.Rand) string {
	var b strings.Builder
	for range 20 {
		fmt.Fprintf(&b, "%016x%016x%016x\n", rnd.Uint64(), rnd.Uint64(), rnd.Uint64())
	}
	return b.String()
}

func BenchmarkUndo10k(b *testing.B) {
	s := storetest.Open(b, b.TempDir(), storetest.Options())
	rnd := rand.New(rand.NewPCG(1, 1))
	var made, gone []store.Change
	for i := range 10000 {
		p := store.Path(fmt.Sprintf("d%d/f%d", i%100, i))
		made = append(made, storetest.Closed(store.OpCreate, p, noise(rnd)))
		c := storetest.Told(store.OpUnlink, p, "", storetest.FileMode)
		c.Actor.Session = "A"
		gone = append(gone, c)
	}
	for i := 0; i < len(made); i += 250 {
		storetest.Apply(b, s, made[i:i+250]...)
	}
	for i := 0; i < len(gone); i += 250 {
		storetest.Apply(b, s, gone[i:i+250]...)
	}
	for b.Loop() {
		p, err := Planner{Store: s}.Undo(Query{Select: store.Filter{Session: "A"}})
		if err != nil || len(p.Steps) < 10000 {
			b.Fatal(err, len(p.Steps))
		}
		if err := s.Journal.Begin(context.Background(), &p.Plan, p.Made); err != nil {
			b.Fatal(err)
		}
		for _, st := range p.Steps {
			if st.Do == store.DoWrite {
				if _, err := s.Content(st.Blob); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
}

// A chmod through the descriptor of a new file is reported before the file itself. For restore and
// undo, the file nevertheless did not exist before.
func TestRestoreToBeforeAChmodOfANewFile(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.do(tr.Write("a", "old"))
	then := c.s.Seq()
	made := tr.Write("sedXY", "new")
	c.do(tr.Chmod("sedXY", 0o600), made, tr.Rename("sedXY", "a"))
	p, err := Planner{Store: c.s}.Restore(nil, then)
	if err != nil || len(p.Lost)+len(p.Conflicts) > 0 {
		t.Fatal(err, p)
	}
	c.carry(p)
	c.want("a", "old")
}

// TestTitleNamesTheSession: the title contains the session's first prompt, if it had one.
func TestTitleNamesTheSession(t *testing.T) {
	c := newScene(t)
	c.as("A", "sed", "t1", 10).do(c.tr.Write("a", "one\n"))
	c.as("B", "sed", "t2", 11).do(c.tr.Write("b", "one\n"))
	for i, text := range []string{"Rename\nit", "And on"} {
		if err := c.s.Sessions.PutPrompt(store.Prompt{Session: "A", ID: fmt.Sprint("p", i), Text: text, Time: int64(i + 1)}); err != nil {
			t.Fatal(err)
		}
	}
	for id, want := range map[store.SessionID]string{"A": "session “Rename it”", "B": "session B"} {
		p, err := Planner{Store: c.s}.Undo(Query{Select: store.Filter{Session: id}})
		if err != nil || p.Title != want {
			t.Errorf("%+v, %v, want %s", p, err, want)
		}
	}
}

// A directory is restored to a name that a file has now, and that file belongs in the directory.
// The plan used to make the directory, rename it to make room for the file, and make it once more.
func TestDirectoryWhereItsFileIs(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "vim", "", 5).do(tr.Mkdir("lib", storetest.DirMode), tr.Mkdir("lib/out", storetest.DirMode), tr.Mkdir("lib/out/deep", storetest.DirMode), tr.Write("lib/out/e", "e\n"))
	before := tr.Clone()
	c.as("A", "sh", "t1", 10).do(tr.Write("lib/out/deep/b", "b\n"), tr.Exchange("lib/out/deep/b", "lib/out/e"), tr.Rename("lib/out/deep", "src"))
	c.do(tr.Exchange("src/b", "lib"), tr.Remove("src/b/out/e"), tr.Remove("src/b/out"), tr.Remove("src/b"))
	c.carry(c.undo(Query{Select: store.Filter{Session: "A"}}))
	if now := tr.Clone(); !maps.Equal(now, before) {
		t.Fatalf("after undo:\n%swant\n%s", show(now), show(before))
	}
}

// git checkout removes a file and makes it again with the same content. The undo used to give it
// the time of its last write, and not the time that it had been given since.
func TestUndoGivesBackTouchedTime(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "vim", "", 5).do(tr.Write("a", "a\n"), tr.Chmod("a", 0o600))
	tr.Files["a"].Mtime = int64(time.Hour) // touch
	c.as("A", "git", "t1", 10).do(tr.Remove("a"), tr.Write("a", "a\n"), tr.Chmod("a", 0o600))
	if tr.Files["a"].Mtime == int64(time.Hour) {
		t.Fatal("the file that was made has the old time")
	}
	c.carry(c.undo(Query{Select: store.Filter{Session: "A"}}))
	if got := tr.Files["a"].Mtime; got != int64(time.Hour) {
		t.Fatalf("the time is %d", got)
	}
}

// A save that replaces a file by one with the same content, as sed -i does, changes its time. The undo used
// to leave the new time, so that everything that depends on the file was built again. A rename leaves the
// time that somebody else gave the file before.
func TestUndoOfASaveOfTheSameGivesBackTheTime(t *testing.T) {
	for _, renamed := range []bool{false, true} {
		c := newScene(t)
		tr := c.tr
		c.as("", "vim", "", 5).do(tr.Write("a", "a\n"), tr.Write("b", "b\n"))
		old, touched := tr.Files["a"].Mtime, int64(time.Hour)
		c.as("A", "sed", "t1", 10).do(tr.Write("sedX", "a\n"))
		if renamed {
			tr.Files["a"].Mtime = touched
			c.do(tr.Remove("sedX"), tr.Rename("a", "c"), tr.Write("b", "c\n"))
		} else {
			c.do(tr.Rename("sedX", "a"), tr.Write("b", "c\n"))
			touched = old
		}
		c.carry(c.undo(Query{Select: store.Filter{Session: "A"}}))
		c.want("b", "b\n")
		if got := tr.Files["a"]; got == nil || got.Data != "a\n" || got.Mtime != touched {
			t.Errorf("renamed %v: %+v, want the time %d", renamed, got, touched)
		}
	}
}

// A dry run does not have the present content of an ignored file. It used to count the lines as if
// the file were empty: an undo of an appended line showed +1 -0.
func TestLinesOfUnsavedContentAreNotCounted(t *testing.T) {
	c := newScene(t)
	c.as("", "vim", "", 5).do(c.tr.Write("x.log", "1\n"))
	c.as("A", "sh", "t1", 10)
	appended := c.tr.Write("x.log", "1\n2\n")
	appended.Class, appended.HasContent, appended.Content = event.Ignored, false, nil
	p := c.do(appended).undo(Query{Select: store.Filter{Session: "A"}})
	if len(p.Steps) != 1 || p.Steps[0].Added+p.Steps[0].Removed != 0 {
		t.Errorf("steps %+v", p.Steps)
	}
}
