package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/tiktoken-go/tokenizer"
)

var all = flag.Bool("all", false, "replay every trace, counted with the o200k tokenizer")

// Four sessions: one with edits between reads, one with sub-agents, one with
// compactions, and one with a compaction that never reads anything twice. What was
// sent must be true, must cost less than nothing where there is no schema, and must
// come near what an oracle would send.
func TestReplay(t *testing.T) {
	if f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0); err == nil {
		f.Close()
	} else if os.Getenv("CACHEBRO_NEED_FUSE") == "1" {
		t.Fatal("CACHEBRO_NEED_FUSE=1 and /dev/fuse cannot be opened")
	} else {
		t.Skip("no /dev/fuse")
	}
	enc, err := tokenizer.Get(tokenizer.O200kBase)
	if err != nil {
		t.Fatal(err)
	}
	binary, version, err := build(t.TempDir(), os.Getenv("CACHEBRO_BIN"))
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"02", "03", "04", "16"}
	if *all {
		names = nil
	}
	traces, err := loadAll("../../../testdata/traces", names)
	if err != nil {
		t.Fatal(err)
	}
	o := options{binary: binary, version: version, profile: "default", recovery: "compact", progress: func(s string) { t.Log(s) },
		tokens: func(s string) int {
			ids, _, err := enc.Encode(s)
			if err != nil {
				t.Errorf("tokenizer: %v", err)
			}
			return len(ids)
		}}
	for _, mode := range []string{"hooks", "mcp"} {
		t.Run(mode, func(t *testing.T) {
			o.mode = mode
			rs, err := replay(traces, o)
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			table(&out, title(o)+", tokens of o200k", rs)
			t.Log(out.String())
			check(t, rs, mode == "hooks")
		})
	}
	t.Run("processes", func(t *testing.T) {
		// A process keeps to the limits of time of a hook: where the machine makes it
		// late it says nothing, nor do those of the next half minute. That costs
		// savings, never truth.
		o.mode, o.process = "hooks", true
		for try := 1; ; try++ {
			rs, err := replay(traces[:1], o)
			if err != nil {
				t.Fatal(err)
			}
			told(t, rs)
			if why := short(rs); why == "" {
				break
			} else if try == 6 {
				t.Error(why)
				break
			}
		}
	})
}

func check(t *testing.T, rs []*result, free bool) {
	t.Helper()
	for _, r := range rs {
		if free && r.saved() < 0 {
			t.Errorf("trace %s: %d tokens saved", r.name, r.saved())
		}
	}
	told(t, rs)
	if why := short(rs); why != "" {
		t.Error(why)
	}
}

// told: nothing that was sent may be false.
func told(t *testing.T, rs []*result) {
	t.Helper()
	for _, r := range rs {
		for _, w := range r.wrong {
			t.Errorf("false: %s", w)
		}
	}
}

// short says what is missing in savings; "" is nothing.
func short(rs []*result) string {
	sum := &result{}
	for _, r := range rs {
		sum.add(r)
	}
	if got, want := sum.full-sum.sent, sum.within(); got*10 < want*9 {
		return fmt.Sprintf("answers save %d of %d tokens: less than 90 %% of the oracle", got, want)
	}
	if sum.stubs == 0 {
		return "nothing was ever called unchanged: the replay tests nothing"
	}
	return ""
}

// The lines of one file are as long as recorded and no two are alike.
func TestTexts(t *testing.T) {
	lens := []int{0, 1, 1, 2, 2, 3, 40, 40, 7, 120, 9, 9}
	tx := newTexts(lens)
	seen := map[string]int{}
	for i, n := range lens {
		s := tx.of(i)
		if len(s) != n || strings.Contains(s, "\n") {
			t.Errorf("line %d is %q, want %d bytes", i, s, n)
		}
		if j, ok := seen[s]; ok && n > 0 {
			t.Errorf("lines %d and %d are both %q", i, j, s)
		}
		seen[s] = i
	}
}

// What a later read shows of lines that nobody had looked at was there before;
// lines that differ are a change, made just before the read.
func TestScript(t *testing.T) {
	tr := &trace{LineBytes: []int{0, 10, 11, 12, 13, 14, 15, 16}, Events: []traceEvent{
		{Op: "read", Start: 1, Lines: runs{1, 2}, Total: 6, Limit: 2},
		{Op: "read", Start: 3, Lines: runs{3, 4}, Total: 6, Offset: 3, Limit: 2},
		{Op: "edit", Old: runs{3}, New: runs{5, 6}},
		{Op: "read", Start: 1, Lines: runs{1, 7, 5}, Total: 7, Limit: 3},
	}}
	s, tx := newScript(tr), newTexts(tr.LineBytes)
	s.fillIn(tx)
	if len(s.steps) != 4 || s.unplaced != 0 {
		t.Fatalf("%d steps, %d edits not placed", len(s.steps), s.unplaced)
	}
	if content(s.steps[0].pre, tx) != content(s.steps[1].pre, tx) {
		t.Error("the second read is of another version, though nothing contradicts the first")
	}
	got := strings.Split(content(s.steps[3].pre, tx), "\n")
	want := []string{tx.of(1), tx.of(7), tx.of(5), tx.of(6), tx.of(4)}
	if strings.Join(got[:5], "|") != strings.Join(want, "|") || len(got) != 7 {
		t.Errorf("after edit and change the file is %q", got)
	}
	if content(s.steps[2].post, tx) == content(s.steps[3].pre, tx) {
		t.Error("the change before the last read is missing")
	}
}

// A stub, a diff and a span are checked against what the reader holds.
func TestMind(t *testing.T) {
	m := &mind{}
	m.told(1, []string{"a", "b"}, false)
	if m.stub([]string{"a", "b", "c"}, 1, 2) != nil || m.stub([]string{"a", "b", "c"}, 1, 3) == nil || m.stub([]string{"a", "x"}, 1, 2) == nil {
		t.Error("a stub is judged wrongly")
	}
	if m.patched("@@ -1 +1 @@\n-a\n+z\n", "z\nb\n") == nil {
		t.Error("a diff for half a file passed")
	}
	m.all("a\nb\nc\n")
	if err := m.patched("@@ -1,3 +1,3 @@\n-a\n+z\n b\n c\n", "z\nb\nc\n"); err != nil {
		t.Error(err)
	}
	if err := m.span(1, []string{"q", "z"}, "cachebro: f changed since your Read of 12:40; lines 1-2 are shown as they are now. Old 2-3 are now 3-4, otherwise unchanged.", "q\nz\nb\nc\n"); err == nil {
		t.Error("a span that does not say what follows passed")
	}
	m.edited(0, 1, []string{"one", "two"})
	if s, ok := m.whole(); !ok || s != "one\ntwo\nb\nc\n" {
		t.Errorf("after its own edit the reader holds %q", s)
	}
}
