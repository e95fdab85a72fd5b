package undo

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cachebro/scripts/testkit/storetest"
	"cachebro/store"
	"cachebro/store/diff"

	"pgregory.net/rapid"
)

// patchBack returns what patch -R makes of a text, and false if a hunk does not fit.
func patchBack(r *rapid.T, text string, patch []byte) (string, bool) {
	dir, err := os.MkdirTemp("", "patch")
	if err != nil {
		r.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "f")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		r.Fatal(err)
	}
	cmd := exec.Command("patch", "--binary", "-R", "-s", "-F0", "--no-backup-if-mismatch", "-r", "-", file)
	cmd.Stdin = bytes.NewReader(patch)
	failed := cmd.Run() != nil
	b, err := os.ReadFile(file)
	if err != nil {
		r.Fatal(err)
	}
	return string(b), !failed
}

// onlyHunks returns a diff with only the selected hunks of sc.
func onlyHunks(sc *diff.Script, which map[int]bool) []byte {
	out := []byte("--- f\n+++ f\n")
	n := -1
	for _, row := range sc.Rows(diff.Context) {
		if bytes.HasPrefix(row.Text, []byte("@@")) {
			n++
		}
		if which[n] {
			out = append(out, row.Text...)
		}
	}
	return out
}

// edited draws a text and an edited version of it. Both may have other line ends, or none at the
// end of the text.
func edited(r *rapid.T, unique bool) (old, new string) {
	var a, b strings.Builder
	ends := rapid.SampledFrom([]string{"\n", "\n", "\r\n"}).Draw(r, "ends")
	end := func(s string) string {
		s = strings.ReplaceAll(s, "\n", ends)
		if rapid.IntRange(0, 3).Draw(r, "cut") == 0 {
			s = strings.TrimSuffix(s, ends)
		}
		return s
	}
	for i := range rapid.IntRange(1, 60).Draw(r, "lines") {
		l := fmt.Sprintf("line %d\n", i)
		if !unique && rapid.IntRange(0, 3).Draw(r, "common") == 0 {
			l = "}\n"
		}
		a.WriteString(l)
		switch rapid.IntRange(0, 9).Draw(r, "edit") {
		case 0: // removed
		case 1:
			fmt.Fprintf(&b, "changed %d\n", i)
		case 2:
			fmt.Fprintf(&b, "%sadded %d\n", l, i)
		case 3: // another line end
			b.WriteString(strings.TrimSuffix(l, "\n") + "\r\n")
		default:
			b.WriteString(l)
		}
	}
	return end(a.String()), end(b.String())
}

// TestHunksAsPatch undoes hunks one by one in any order, while somebody else edits the file, and
// compares with patch -R. If the edits affect the same lines, the file is left alone and reported.
func TestHunksAsPatch(t *testing.T) {
	w := world{storetest.Fresh(t), storetest.NewTree()} // one store for all examples, because making one takes longer than using it
	files := 0
	rapid.Check(t, func(r *rapid.T) {
		unique := rapid.Bool().Draw(r, "unique")
		old, new := edited(r, unique)
		sc := diff.Compare([]byte(old), []byte(new))
		hunks := sc.Hunks(diff.Context)
		if len(hunks) == 0 || new == "" {
			r.Skip()
		}
		files++
		f := store.Path(fmt.Sprintf("f%d", files))
		w.tr.Actor = store.Actor{PID: 5, Comm: "vim"}
		w.apply(r, w.tr.Write(f, old))
		before := w.s.Seq()
		w.tr.Actor = store.Actor{PID: 10, Session: "A", ToolCall: "t1"}
		w.apply(r, w.tr.Write(f, new))
		after := w.s.Seq()

		want, others, gone := new, false, map[int]bool{}
		for _, n := range rapid.Permutation(numbers(len(hunks))).Draw(r, "order")[:rapid.IntRange(1, len(hunks)).Draw(r, "most")] {
			if rapid.IntRange(0, 3).Draw(r, "others") == 0 {
				lines := diff.Lines([]byte(want))
				at := rapid.IntRange(0, len(lines)).Draw(r, "at")
				if at == len(lines) && at > 0 && !strings.HasSuffix(want, "\n") {
					lines[at-1] = append(slices.Clone(lines[at-1]), '\n')
				}
				want = string(bytes.Join(lines[:at], nil)) + fmt.Sprintf("others %d\n", n) + string(bytes.Join(lines[at:], nil))
				w.tr.Actor = store.Actor{PID: 6, Comm: "emacs"}
				w.apply(r, w.tr.Write(f, want))
				others = true
			}
			first := editsBefore(hunks, n)
			which := make([]int, len(hunks[n].Edits))
			for i := range which {
				which[i] = first + i
			}
			p, err := Planner{Store: w.s}.Edits([]FileEdits{{before, after, which}})
			if err != nil {
				r.Fatal(err)
			}
			if len(p.Conflicts) > 0 {
				if unique && !others {
					r.Fatalf("hunk %d: %+v\n%s", n, p.Conflicts, sc.Body(diff.Context))
				}
				if len(p.Steps) > 0 {
					r.Fatalf("a conflict, and steps: %+v", p)
				}
				continue
			}
			carried := want
			if len(p.Steps) > 0 {
				w.carry(r, p)
				carried = w.tr.Files[f].Data
			}
			gone[n] = true
			if patched, ok := patchBack(r, want, onlyHunks(sc, map[int]bool{n: true})); unique && ok && patched != carried {
				r.Fatalf("hunk %d taken back from\n%s\ngave\n%s\nwant\n%s", n, want, carried, patched)
			}
			for l := range strings.Lines(want) {
				if strings.HasPrefix(l, "others") && !strings.Contains("\n"+carried, "\n"+l) {
					r.Fatalf("%q is lost", l)
				}
			}
			want = carried
		}
		if !others {
			if patched, ok := patchBack(r, new, onlyHunks(sc, gone)); len(gone) > 0 && ok && patched != want {
				r.Fatalf("hunks %v gave\n%s\nwant\n%s", gone, want, patched)
			}
		}
	})
}

func numbers(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// editsBefore returns the number of edits before a hunk.
func editsBefore(hunks []diff.Hunk, n int) int {
	sum := 0
	for _, h := range hunks[:n] {
		sum += len(h.Edits)
	}
	return sum
}

// TestHunksAndTheRest: undoing a hunk twice does nothing, and redo restores it. A change that makes
// or removes the file can only be undone as a whole.
func TestHunksAndTheRest(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	text := func(first, last string) string {
		return first + "\n" + strings.Repeat("same\n", 10) + last + "\n"
	}
	c.as("", "vim", "", 5).do(tr.Write("a", text("one", "end")))
	before := c.s.Seq()
	c.as("A", "sed", "t1", 10).do(tr.Write("a", text("ONE", "END")))
	after := c.s.Seq()
	take := func(which ...int) *Draft {
		p, err := Planner{Store: c.s}.Edits([]FileEdits{{before, after, which}})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	c.carry(take(0))
	c.want("a", text("one", "END"))
	if p := take(0); len(p.Steps)+len(p.Conflicts) > 0 {
		t.Errorf("taken back twice: %+v", p)
	}
	redo, err := Planner{Store: c.s}.Redo("", false, false)
	if err != nil {
		t.Fatal(err)
	}
	c.carry(redo)
	c.want("a", text("ONE", "END"))
	c.carry(take(0, 1))
	c.want("a", text("one", "end"))
	for _, x := range [][]FileEdits{{{0, before, []int{0}}}, {{before, after, []int{2}}}, {{before, after, nil}}, {{before, after, []int{-1}}}, {{before, after, []int{0}}, {before, after, []int{1}}}} {
		if p, err := (Planner{Store: c.s}).Edits(x); err == nil {
			t.Errorf("%v: %+v", x, p)
		}
	}
	c.as("", "vim", "", 5).do(tr.Remove("a"))
	if p := take(1); len(p.Conflicts) != 1 || len(p.Steps) > 0 {
		t.Errorf("of a file that is gone: %+v", p)
	}
}

// TestLeftLines: a plan of any kind leaves alone the lines in Planner.Leave. It is an error to name
// a line that does not change, or lines of a file that is made or removed as a whole.
func TestLeftLines(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "vim", "", 5).do(tr.Write("a", "one\ntwo\nthree\nfour"), tr.Write("b", "b\n"))
	then := c.s.Seq()
	c.as("A", "sed", "t1", 10).do(tr.Write("a", "ONE\nTWO\nthree\nFOUR"), tr.Write("b", "B\n"), tr.Write("c", "new\n"))
	undo := func(left ...LeftLines) (*Draft, error) {
		return Planner{Store: c.s, Leave: left}.Undo(Query{Select: store.Filter{ToolCall: "t1"}})
	}
	// ONE and FOUR must stay, and four must not be added. The other lines are undone.
	p, err := undo(LeftLines{"a", []int{0, 3}, []int{3}}, LeftLines{"b", []int{0}, []int{0}})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Steps) != 2 || !strings.HasSuffix(p.Title, ", in part") {
		t.Errorf("%+v", p)
	}
	c.carry(p)
	c.want("a", "ONE\none\ntwo\nthree\nFOUR")
	c.want("b", "B\n")
	if _, there := c.tr.Files["c"]; there {
		t.Error("what was added is still there")
	}
	redo, err := Planner{Store: c.s}.Redo("", false, false)
	if err != nil {
		t.Fatal(err)
	}
	c.carry(redo)
	c.want("a", "ONE\nTWO\nthree\nFOUR")
	// The last line has no line end. The plan adds a line end if this line does not remain the last
	// one.
	p, err = Planner{Store: c.s, Leave: []LeftLines{{"a", []int{3}, nil}}}.Restore([]store.Path{"a"}, then)
	if err != nil {
		t.Fatal(err)
	}
	c.carry(p)
	c.want("a", "one\ntwo\nthree\nFOUR\nfour")
	for _, l := range []LeftLines{{"c", nil, []int{0}}, {"nosuch", nil, []int{0}}, {"b", []int{1}, nil}, {"b", []int{-1}, nil}} {
		if p, err := undo(l); err == nil {
			t.Errorf("%v: %+v", l, p)
		}
	}
}
