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

// TestReplay plays four sessions: one with edits between reads, one with sub-agents, one with
// compactions, and one with a compaction and no second read of any text. The answers must be true,
// must save tokens where no schema has to be paid for, and must be nearly as short as an oracle's.
func TestReplay(t *testing.T) {
	needFuse(t)
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
	traces, err := loadAll("../../testdata/traces", names)
	if err != nil {
		t.Fatal(err)
	}
	o := options{binary: binary, version: version, profile: "default", client: claude, progress: func(s string) { t.Log(s) },
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
	// With prompts, rewinds, resumes, silent clearings, shell views, files outside of the project
	// and commands' outputs, no answer is false, and nothing costs more than without cachebro.
	t.Run("varied", func(t *testing.T) {
		v := o
		v.mode, v.seed = "hooks", 1
		var err error
		if v.corpus, err = loadCorpus("../../hooks/reshape/testdata/corpus"); err != nil {
			t.Fatal(err)
		}
		rs, err := replay(traces[:2], v)
		if err != nil {
			t.Fatal(err)
		}
		told(t, rs)
		for _, r := range rs {
			if r.saved() < 0 || r.outSent >= r.outChars || r.bill <= r.billed {
				t.Errorf("trace %s: %d tokens saved, %d of %d characters of outputs, a bill of %.0f instead of %.0f", r.name, r.saved(), r.outSent, r.outChars, r.billed, r.bill)
			}
		}
	})
	t.Run("processes", func(t *testing.T) {
		// A real hook process obeys time limits. If it is late on a slow machine, it prints
		// nothing, and neither do the hooks of the next half minute. This reduces the savings, but
		// makes no answer false.
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

func needFuse(t *testing.T) {
	t.Helper()
	if f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0); err == nil {
		f.Close()
	} else if os.Getenv("CACHEBRO_NEED_FUSE") == "1" {
		t.Fatal("CACHEBRO_NEED_FUSE=1 and /dev/fuse cannot be opened")
	} else {
		t.Skip("no /dev/fuse")
	}
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

// told checks that no answer was false.
func told(t *testing.T, rs []*result) {
	t.Helper()
	for _, r := range rs {
		for _, w := range r.wrong {
			t.Errorf("false: %s", w)
		}
	}
}

// short says which savings are missing. It returns "" if none is.
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

// The lines of one file have the recorded lengths, and all of them are different.
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

// Lines that a later read shows for the first time existed before. Lines that differ from the known
// lines were changed just before the read.
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

// Answers are judged by the texts in the context.
func TestJudge(t *testing.T) {
	text := func(lines string) []string { return strings.Split(lines, "|") }
	var c conversation
	c.add(message{take: showing(1, text("a|b|c|"), true), result: 4})
	note := func(words string, start int, shown string) []lineRun {
		runs, err := noted("cachebro: f changed since your Read of 12:40; "+words, start, text(shown))
		if err != nil {
			t.Fatal(err)
		}
		return runs
	}
	for _, x := range []struct {
		name  string
		runs  []lineRun
		now   string
		right bool
	}{
		{"moved", note("lines 1-2 are shown as they are now. Old 2-4 are now 3-5, otherwise unchanged.", 1, "q|z"), "q|z|b|c|", true},
		{"moved, another text", note("lines 1-2 are shown as they are now. Old 2-4 are now 3-5, otherwise unchanged.", 1, "q|z"), "q|z|b|d|", false},
		{"nothing said of what follows", note("lines 1-2 are shown as they are now.", 1, "q|z"), "q|z|b|c|", false},
		{"on both sides", note("line 2 is shown as it is now. Line 1 is unchanged; lines 3-4 are unchanged.", 2, "x"), "a|x|c|", true},
		{"one side left out", note("line 2 is shown as it is now. Line 1 is unchanged.", 2, "x"), "a|x|c|", false},
	} {
		now := text(x.now)
		if err := judged(c.mind(0, 0), arranged(x.runs, true, false), now, 1, len(now)); (err == nil) != x.right {
			t.Errorf("%s: %v", x.name, err)
		}
	}
	for _, words := range []string{"", "cachebro: f changed.", "lines 1-3 are shown as they are now.", "lines 1-2 are shown as they are now. All else is as before."} {
		if runs, err := noted(words, 1, text("q|z")); err == nil {
			t.Errorf("%q was understood as %v", words, runs)
		}
	}
	stub := "cachebro: not repeated. Lines 1-2 of f are exactly as in your Read of 12:40 (4 lines). Read it again to get the text."
	same, err := repeated(stub)
	right := func(now string, last int) bool {
		return judged(c.mind(0, 0), arranged(same, false, false), text(now), 1, last) == nil
	}
	if err != nil || !right("a|b|x|", 2) || right("a|x|c|", 2) || right("a|b|c|", 3) {
		t.Errorf("a stub is judged wrongly: %v", err)
	}
	for patch, want := range map[string]string{
		"@@ -1 +1 @@\n-a\n+z\n":                                     "z|b|c|",
		"@@ -1,3 +1,3 @@\n-a\n+z\n b\n c\n":                         "z|b|c|",
		"@@ -3 +3,2 @@\n-c\n+c\n+d\n\\ No newline at end of file\n": "a|b|c|d",
		"@@ -0,0 +1 @@\n+z\n":                                       "z|a|b|c|",
		"@@ -2 +1,0 @@\n-b\n":                                       "a|c|",
	} {
		runs, err := patched(c.mind(0, 0), patch)
		m := c.mind(0, 0)
		arranged(runs, true, false)(m)
		if got, ok := m.whole(); err != nil || !ok || got != strings.Join(text(want), "\n") {
			t.Errorf("%q: %q, %v, want %q", patch, got, err, want)
		}
	}
	if _, err := patched(c.mind(0, 0), "@@ -1 +1 @@\n-x\n+z\n"); err == nil {
		t.Error("a diff of another text passed")
	}
	// A context in which lines 1-3 of a file of three lines were read knows the whole file, and a
	// diff against it is true.
	var paged mind
	shown, ends := toTheEnd(1, text("a|b|c"), text("a|b|c|"))
	paged.learn(1, shown, ends)
	if _, err := patched(&paged, "@@ -1 +1 @@\n-a\n+z\n"); err != nil {
		t.Errorf("a diff after a read up to the last newline: %v", err)
	}
	if _, ends := toTheEnd(1, text("a|b"), text("a|b|c|")); ends {
		t.Error("two of three lines count as the whole file")
	}
	// A context no longer knows the texts that were cleared.
	c.add(message{take: func(m *mind) { m.edited(0, 1, text("one|two")) }})
	if s, ok := c.mind(0, 0).whole(); !ok || s != "one\ntwo\nb\nc\n" {
		t.Errorf("after its own edit the reader holds %q", s)
	}
	if c.cleared(0, 5) != 0 || c.cleared(0, 4) != 4 || right("a|b|c|", 2) {
		t.Error("what was cleared is held")
	}
}
